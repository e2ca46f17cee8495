#include "device/cards.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/flags.h"
#include "device/registry.h"
#include "device/trial.h"
#include "device/visibility.h"
#include "drivers/sim/sim_flags.h"

#define BTI_DRIVER(name) extern const bti_driver bti_driver_##name;
#include "drivers/drivers.def"
#undef BTI_DRIVER
static const bti_driver *const drivers[] = {
#define BTI_DRIVER(name) &bti_driver_##name,
#include "drivers/drivers.def"
#undef BTI_DRIVER
};
enum { DRIVER_COUNT = sizeof drivers / sizeof *drivers, GPUS = 1u << BT_GPU, MOST_PROCESSES = 512 };

typedef struct card {
    const bti_driver *driver;
    int ordinal;
    uint64_t linked; /* by ordinals */
    bti_card record;
} card;

/* When GPUs are simulated, only the driver of simulated devices is asked. */
static bool read_settings(bti_sim_spec *spec, bool *simulated, bti_str *reason) {
    *spec = (bti_sim_spec){0};
    char *text = bti_flag_text(BTI_FLAG_devices);
    bool read = text && bti_sim_spec_parse(text, spec) == BT_OK;
    if (!read) bti_str_addf(reason, "%s\n", text ? bt_error_text() : "out of host memory");
    bti_free(text);
    *simulated = spec->named[BT_GPU];
    return read;
}

static bool is_asked(const bti_driver *driver, bool simulated, bti_str *reason) {
    if (!(driver->kinds & GPUS) || !strcmp(driver->name, "opencl")) return false;
    if (simulated != driver->simulated) return false;
    return !driver->detect || driver->detect(GPUS, reason);
}

static card as_card(const bti_driver *driver, const bti_device_facts *facts) {
    card c = {
        driver, facts->ordinal, facts->linked, {.memory_bytes = facts->memory_bytes, .simulated = driver->simulated}};
    snprintf(c.record.model, sizeof c.record.model, "%.63s", facts->description);
    if (*facts->uuid || *facts->pci_bus_id)
        snprintf(c.record.name, sizeof c.record.name, "%s", *facts->uuid ? facts->uuid : facts->pci_bus_id);
    else
        snprintf(c.record.name, sizeof c.record.name, "%.40s-%d", driver->name, facts->ordinal);
    return c;
}

/* Appends the GPUs of one driver that the mask shows. */
static int add_shown(const bti_driver *driver, const bti_device_facts *facts, int count, card *cards, int capacity) {
    const char *uuids[BTI_MAX_DEVICES];
    int gpus[BTI_MAX_DEVICES], visible[BTI_MAX_DEVICES], gpu_count = 0, shown = 0;
    for (int i = 0; i < count; i++) {
        if (facts[i].kind != BT_GPU) continue;
        if (facts[i].masked && shown < capacity) cards[shown++] = as_card(driver, &facts[i]);
        if (!facts[i].masked) uuids[gpu_count] = facts[i].uuid, gpus[gpu_count++] = i;
    }
    int visible_count = bti_visible_devices(getenv("CUDA_VISIBLE_DEVICES"), uuids, gpu_count, visible);
    for (int i = 0; i < visible_count && shown < capacity; i++)
        cards[shown++] = as_card(driver, &facts[gpus[visible[i]]]);
    return shown;
}

/* Partitions are named by UUID: a mask of numbers means whole GPUs. */
static bool shows_partitions(const bti_driver *driver) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    while (mask && *mask && strchr(" \t\n\v\f\r", *mask)) mask++;
    return driver->list_partitions && (!mask || !strncasecmp(mask, "GPU-", 4) || !strncasecmp(mask, "MIG-", 4));
}

static bt_status list_driver(const bti_driver *driver, bti_device_facts *facts, int *count, bti_str *reason) {
    return shows_partitions(driver) ? driver->list_partitions(facts, BTI_MAX_DEVICES, count, reason)
                                    : driver->probe(GPUS, facts, BTI_MAX_DEVICES, count, reason);
}

static int find_cards(card *cards, bti_str *reason) {
    static bti_device_facts facts[BTI_MAX_DEVICES];
    bti_sim_spec spec;
    bool simulated;
    int found = 0;
    if (!read_settings(&spec, &simulated, reason)) return 0;
    bti_sim_configure(&spec);
    for (int i = 0; i < DRIVER_COUNT; i++) {
        int count = 0;
        if (!is_asked(drivers[i], simulated, reason)) continue;
        if (list_driver(drivers[i], facts, &count, reason) != BT_OK)
            bti_str_addf(reason, "%s: %s\n", drivers[i]->name, bt_error_text());
        if (count > BTI_MAX_DEVICES) count = BTI_MAX_DEVICES;
        found += add_shown(drivers[i], facts, count, cards + found, BTI_MAX_DEVICES - found);
    }
    for (int i = 0; i < found; i++)
        for (int j = 0; j < found && j < 64; j++)
            if (cards[i].driver == cards[j].driver && cards[j].ordinal < 64 && cards[i].linked >> cards[j].ordinal & 1)
                cards[i].record.linked |= (uint64_t)1 << j;
    return found;
}

/* --- AMD's ------------------------------------------------------------------------------------------------------------ */

/* Follows the rules of CUDA_VISIBLE_DEVICES, and also accepts lists that mix numbers and UUIDs. */
static int apply_amd_mask(const char *list, const char *const *uuids, int count, int *visible) {
    int shown = 0, index;
    if (!list) return bti_visible_devices(NULL, uuids, count, visible);
    for (const char *at = list; shown < count; at++) {
        char entry[64];
        size_t length = strcspn(at, ",");
        int printed = snprintf(entry, sizeof entry, "%.*s", (int)length, at);
        if (printed >= (int)sizeof entry || bti_visible_devices(entry, uuids, count, &index) != 1) break;
        visible[shown++] = index;
        at += length;
        if (!*at) break;
    }
    return shown;
}

static int visible_of_amd(const bti_amd_gpu *gpus, int count, int *visible) {
    const char *uuids[BTI_MAX_DEVICES];
    int within[BTI_MAX_DEVICES];
    for (int i = 0; i < count; i++) uuids[i] = gpus[i].uuid;
    count = apply_amd_mask(getenv("ROCR_VISIBLE_DEVICES"), uuids, count, visible);
    bti_mask mask = bti_mask_of(BTI_AMD);
    if (!strcmp(mask.variable, "ROCR_VISIBLE_DEVICES")) return count;
    for (int i = 0; i < count; i++) uuids[i] = gpus[visible[i]].uuid;
    count = apply_amd_mask(mask.list, uuids, count,
                           within); /* its numbers count the GPUs that ROCR_VISIBLE_DEVICES shows */
    for (int i = 0; i < count; i++) within[i] = visible[within[i]];
    memcpy(visible, within, (size_t)count * sizeof *visible);
    return count;
}

static int list_amd(bti_card *cards, int capacity) {
    bti_amd_gpu gpus[BTI_MAX_DEVICES];
    int visible[BTI_MAX_DEVICES], count = bti_amd_list(bti_vendor_root, gpus, BTI_MAX_DEVICES);
    if (count > BTI_MAX_DEVICES) count = BTI_MAX_DEVICES;
    int shown = visible_of_amd(gpus, count, visible);
    for (int i = 0; i < shown && i < capacity; i++) {
        const bti_amd_gpu *gpu = &gpus[visible[i]];
        cards[i] = (bti_card){.memory_bytes = gpu->memory_bytes, .vendor = BTI_AMD};
        if (*gpu->uuid || *gpu->place)
            snprintf(cards[i].name, sizeof cards[i].name, "%s", *gpu->uuid ? gpu->uuid : gpu->place);
        else
            snprintf(cards[i].name, sizeof cards[i].name, "amd-%d", visible[i]);
    }
    return shown;
}

/* --- all vendors ------------------------------------------------------------------------------------------------------------ */

/* Lists the GPUs that the mask of the environment shows, in its order: writes up to `capacity`, *count is how many there are. Opens libraries. If
 * there are none, `reason` says what was tried. */
static bt_status list_cards(bti_card *cards, int capacity, int *count, bti_str *reason) {
    static card found[BTI_MAX_DEVICES];
    *count = 0;
    BTI_TRY(bti_registry_check(0));
    if (bti_cards_vendor() == BTI_AMD) {
        *count = list_amd(cards, capacity);
        return BT_OK;
    }
    *count = find_cards(found, reason);
    for (int i = 0; i < *count && i < capacity; i++) cards[i] = found[i].record;
    return BT_OK;
}

bti_vendor bti_cards_vendor(void) {
    bti_str reason = {0};
    bti_sim_spec spec;
    bool simulated, nvidia = false;
    if (read_settings(&spec, &simulated, &reason))
        for (int i = 0; i < DRIVER_COUNT; i++) nvidia |= simulated || is_asked(drivers[i], simulated, &reason);
    bti_str_free(&reason);
    if (nvidia) return BTI_NVIDIA;
    if (bti_amd_list(bti_vendor_root, NULL, 0)) return BTI_AMD;
    return bti_intel_find(bti_vendor_root, false) ? BTI_INTEL : BTI_UNKNOWN_VENDOR;
}

bool bti_cards_are_split(const bti_card *cards, int count) {
    bool split = false;
    for (int i = 0; i < count; i++) split |= !strncasecmp(cards[i].name, "MIG-", 4);
    return split;
}

bool bti_cards_likely(void) {
    bti_str reason = {0};
    bti_sim_spec spec;
    bool simulated, read = read_settings(&spec, &simulated, &reason);
    bti_str_free(&reason);
    bti_vendor vendor = bti_cards_vendor();
    return read && !simulated && (vendor == BTI_NVIDIA || vendor == BTI_AMD);
}

static bool lists_users(const bti_driver *driver) { return driver->processes; }
static bool has_energy(const bti_driver *driver) { return driver->energy; }

/* Of a driver that is asked for GPUs. */
static bool any_driver(bool (*is)(const bti_driver *driver)) {
    bti_str reason = {0};
    bti_sim_spec spec;
    bool simulated, any = false;
    if (read_settings(&spec, &simulated, &reason))
        for (int i = 0; i < DRIVER_COUNT; i++) any |= is(drivers[i]) && is_asked(drivers[i], simulated, &reason);
    bti_str_free(&reason);
    return any;
}

bool bti_cards_list_users(void) { return any_driver(lists_users); }
bool bti_cards_have_energy(void) { return any_driver(has_energy); }

/* Those that the mask shows, found once in this process. */
static int cards_here(card **cards) {
    static card found[BTI_MAX_DEVICES];
    static int count = -1;
    bti_str reason = {0};
    if (count < 0) count = find_cards(found, &reason);
    bti_str_free(&reason);
    *cards = found;
    return count;
}

void bti_cards_energy(bti_card_energy *energies, int capacity, int *count) {
    card *cards;
    uint64_t since_ns;
    *count = cards_here(&cards);
    for (int i = 0; i < *count && i < capacity; i++) {
        const bti_driver *driver = cards[i].driver;
        bti_str reason = {0};
        energies[i] = (bti_card_energy){0};
        if (!driver->energy)
            bti_str_addf(&reason, "the driver `%s` does not report it", driver->name);
        else if (driver->energy(cards[i].ordinal, &energies[i].joules, &since_ns, &reason))
            continue;
        snprintf(energies[i].why, sizeof energies[i].why, "%s",
                 reason.length && !reason.failed ? reason.text : "out of host memory");
        bti_str_free(&reason);
    }
}

bt_status bti_cards_users(int *pids, int capacity, int *count) {
    static bt_device_process processes[MOST_PROCESSES];
    card *cards;
    int card_count = cards_here(&cards);
    *count = 0;
    for (int i = 0; i < card_count; i++) {
        int listed;
        if (!cards[i].driver->processes)
            return bti_fail(BT_UNIMPLEMENTED, "the driver `%s` cannot list the processes that hold its memory",
                            cards[i].driver->name);
        BTI_TRY(cards[i].driver->processes(cards[i].ordinal, processes, MOST_PROCESSES, &listed));
        for (int p = 0; p < listed && p < MOST_PROCESSES && *count < capacity; p++)
            pids[(*count)++] = (int)processes[p].pid;
    }
    return BT_OK;
}

/* --- in a child --------------------------------------------------------------------------------------------------------- */

typedef struct answer {
    bt_status status;
    char error[512];
    int count;
    bti_card cards[BTI_MAX_DEVICES];
} answer;

static void write_all(int to, const void *bytes, size_t left) {
    const char *at = bytes;
    for (ssize_t n; left && (n = write(to, at, left)) > 0; at += n) left -= (size_t)n;
}

/* Sends the time limit first: the parent reads no flags, because the program may still set them. */
static _Noreturn void answer_in_child(int report, answer *a) {
    bti_str reason = {0};
    double seconds = bti_flag_float(BTI_FLAG_probe_seconds);
    write_all(report, &seconds, sizeof seconds);
    bti_trial_begin_child(bti_file_above_standard(open("/dev/null", O_WRONLY | O_CLOEXEC)));
    a->status = list_cards(a->cards, BTI_MAX_DEVICES, &a->count, &reason);
    if (a->status != BT_OK) snprintf(a->error, sizeof a->error, "%s", bt_error_text());
    write_all(report, a, sizeof *a);
    _exit(0);
}

/* Reads `left` bytes. False: they did not arrive within `seconds`, or the child has ended (*ended). seconds below 0: no limit. */
static bool read_all(int report, void *bytes, size_t left, double seconds, bool *ended) {
    char *at = bytes;
    uint64_t until = seconds < 0 ? UINT64_MAX : bti_now_ms() + (uint64_t)(seconds * 1e3), now;
    while (left && (now = bti_now_ms()) <= until) {
        struct pollfd ready = {.fd = report, .events = POLLIN};
        if (poll(&ready, 1, until - now < 3600000 ? (int)(until - now) + 1 : 3600000) <= 0) continue;
        ssize_t n = read(report, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return *ended = true, false;
        at += n;
        left -= (size_t)n;
    }
    return !left;
}

static bt_status child_failed(bool ended, double seconds, int status) {
    if (!ended)
        return bti_fail(BT_UNAVAILABLE,
                        "the process that looked for GPUs gave no answer in %g seconds (flag probe_seconds)", seconds);
    if (WIFSIGNALED(status))
        return bti_fail(BT_UNAVAILABLE, "the process that looked for GPUs was ended by signal %d (%s)",
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
    return bti_fail(BT_UNAVAILABLE, "the process that looked for GPUs ended with exit code %d", WEXITSTATUS(status));
}

static bt_status ask_child(answer *a) {
    int ends[2], status = 0;
    bool ended = false;
    double seconds = 0;
    if (pipe2(ends, O_CLOEXEC))
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no pipe to the process that looks for GPUs: %s", strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (!child) answer_in_child(bti_file_above_standard(ends[1]), a);
    int error = errno;
    close(ends[1]);
    bool whole = child > 0 && read_all(ends[0], &seconds, sizeof seconds, -1, &ended) &&
                 read_all(ends[0], a, sizeof *a, seconds, &ended);
    close(ends[0]);
    if (child < 0)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no process that looks for GPUs can be started: %s", strerror(error));
    if (!whole && !ended) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!whole) return child_failed(ended, seconds, status);
    return a->status == BT_OK ? BT_OK : bti_fail(a->status, "%s", a->error);
}

bt_status bti_cards_ask(bti_card *cards, int capacity, int *count) {
    answer *a = bti_calloc(1, sizeof *a);
    *count = 0;
    if (!a) return bti_no_memory();
    bt_status status = ask_child(a);
    if (status == BT_OK) *count = a->count;
    for (int i = 0; i < *count && i < capacity; i++) cards[i] = a->cards[i];
    bti_free(a);
    return status;
}
