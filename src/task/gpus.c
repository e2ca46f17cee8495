#include "task/gpus.h"

#include <ctype.h>
#include <dirent.h>
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

#include "base/flags.h"
#include "base/log.h"
#include "base/quote.h"
#include "base/str.h"
#include "device/cards.h"
#include "device/device.h"
#include "device/trial.h"
#include "device/visibility.h"
#include "task/lease.h"
#include "task/process.h"

static const char mask_variable[] = "CUDA_VISIBLE_DEVICES";

/* --- a clean process -------------------------------------------------------------------------------------------------- */

/* A library that has begun to use a GPU holds its file open; being linked to one does no harm. */
static bt_status check_file(const char *number) {
    static const char *const files[] = {"/dev/nvidia", "/dev/kfd", "/dev/dri/render"};
    char link[300], path[128];
    snprintf(link, sizeof link, "/proc/self/fd/%s", number);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return BT_OK;
    path[length] = '\0';
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strncmp(path, files[i], strlen(files[i])))
            return bti_fail(
                BT_FAILED_PRECONDITION,
                "bt_runtime_init: this process has %s open; it must come before any library of GPUs is used", path);
    return BT_OK;
}

bt_status bti_gpus_check_clean(void) {
    if (bti_devices_asked())
        return bti_fail(BT_FAILED_PRECONDITION,
                        "bt_runtime_init: this process has asked for devices already; it must come before that");
    DIR *files = opendir("/proc/self/fd");
    bt_status status = BT_OK;
    for (struct dirent *row; status == BT_OK && files && (row = readdir(files)) != NULL;)
        status = check_file(row->d_name);
    if (files) closedir(files);
    return status;
}

/* --- what a mask names ------------------------------------------------------------------------------------------------ */

typedef enum entry_kind { NUMBER, UUID, MIG } entry_kind;

static bool same_entry(const char *a, const char *b) { return !strcasecmp(a, b); }

/* An entry without the blanks around it; false: it is too long for one. */
static bool cut_entry(const char *from, size_t length, char *entry) {
    while (length && isspace((unsigned char)*from)) from++, length--;
    while (length && isspace((unsigned char)from[length - 1])) length--;
    if (length >= BTI_GPU_NAME) return false;
    memcpy(entry, from, length);
    entry[length] = '\0';
    return true;
}

/* False: it ends the list. */
static bool read_entry(const char *entry, entry_kind *kind, int *number) {
    enum { ANY = 1 << 16 }; /* how many there are is not asked here */
    *kind = !strncasecmp(entry, "GPU-", 4) ? UUID : !strncasecmp(entry, "MIG-", 4) ? MIG : NUMBER;
    return *kind != NUMBER ? entry[4] != '\0' : bti_visible_devices(entry, NULL, ANY, number) == 1;
}

int bti_gpus_of_mask(const char *mask, int32_t *numbers, char (*names)[BTI_GPU_NAME], int capacity) {
    entry_kind first = NUMBER, kind;
    int count = 0, number = 0;
    for (const char *at = mask;; at++) {
        char entry[BTI_GPU_NAME];
        size_t length = strcspn(at, ",");
        if (!cut_entry(at, length, entry) || !read_entry(entry, &kind, &number)) return count;
        if (count == 0) first = kind;
        if (kind != first) return count;
        for (int i = 0; i < count; i++)
            if (kind == NUMBER ? numbers[i] == number : same_entry(names[i], entry)) return 0;
        if (count == capacity) return count;
        numbers[count] = kind == NUMBER ? number : count;
        if (kind == NUMBER)
            snprintf(names[count], BTI_GPU_NAME, "%d", number);
        else
            memcpy(names[count], entry, sizeof entry);
        count++;
        at += length;
        if (!*at) return count;
    }
}

/* --- counting --------------------------------------------------------------------------------------------------------- */

/* What the child writes: how many, then why not more. */
static _Noreturn void count_in_child(int report) {
    bti_str reason = {0};
    bti_trial_behave(open("/dev/null", O_WRONLY | O_CLOEXEC));
    int count = bti_cards_count(&reason);
    if (write(report, &count, sizeof count) != sizeof count) _exit(1);
    if (!count && write(report, bti_str_text(&reason), reason.length) < 0) _exit(1);
    _exit(0);
}

/* All that comes until the other end is closed or the time is over; false: it is. */
static bool read_within(int from, double seconds, bti_str *said) {
    uint64_t until = bti_now_ns() + (uint64_t)(seconds * 1e9);
    for (uint64_t now; (now = bti_now_ns()) < until;) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        char piece[512];
        if (poll(&ready, 1, (int)((until - now) / 1000000) + 1) <= 0) continue;
        ssize_t length = read(from, piece, sizeof piece);
        if (length == 0) return true;
        if (length > 0) bti_str_add_bytes(said, piece, (size_t)length);
        if (length < 0 && errno != EINTR) return true;
    }
    return false;
}

static void tell_failed(bool in_time, int status) {
    if (!in_time)
        bti_log("no GPU is counted: the process that looked for them gave no answer in %g seconds (flag probe_seconds)",
                bti_flag_float(BTI_FLAG_probe_seconds));
    else if (WIFSIGNALED(status))
        bti_log("no GPU is counted: the process that looked for them was ended by signal %d (%s)", WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else
        bti_log("no GPU is counted: the process that looked for them ended with exit code %d", WEXITSTATUS(status));
}

static bt_status detect(int *count) {
    int ends[2], status = 0;
    bti_str said = {0};
    *count = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no files to look for GPUs: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) count_in_child(ends[1]);
    close(ends[1]);
    bool in_time = pid > 0 && read_within(ends[0], bti_flag_float(BTI_FLAG_probe_seconds), &said);
    close(ends[0]);
    if (pid < 0) return bti_fail(BT_RESOURCE_EXHAUSTED, "no process to look for GPUs: %s", strerror(errno));
    if (!in_time) kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (in_time && said.length >= sizeof *count && !said.failed)
        memcpy(count, said.text, sizeof *count);
    else
        tell_failed(in_time, status);
    bti_str_free(&said);
    return BT_OK;
}

bt_status bti_gpus_count(bti_state *state, int asked) {
    const char *mask = getenv(mask_variable);
    int shown = BTI_MOST_GPUS;
    if (asked < BT_DETECT || asked > BTI_MOST_GPUS)
        return bti_fail(BT_INVALID_ARGUMENT, "bt_runtime_init: num_gpus is %d; it can be 0 to %d, or BT_DETECT", asked,
                        BTI_MOST_GPUS);
    for (int g = 0; g < BTI_MOST_GPUS && !mask; g++) {
        state->gpu_number[g] = g;
        snprintf(state->gpu_name[g], BTI_GPU_NAME, "%d", g);
    }
    if (mask) shown = bti_gpus_of_mask(mask, state->gpu_number, state->gpu_name, BTI_MOST_GPUS);
    if (asked > shown)
        return bti_fail(BT_INVALID_ARGUMENT,
                        "bt_runtime_init: num_gpus is %d, but CUDA_VISIBLE_DEVICES=\"%s\" shows %d", asked,
                        bti_quote(mask).text, shown);
    state->lease_file_count = bti_lease_find_open(state->lease_files, BTI_MOST_LEASE_FILES);
    state->gpu_count = asked;
    if (asked == BT_DETECT) BTI_TRY(detect(&state->gpu_count));
    if (state->gpu_count > shown) state->gpu_count = shown;
    state->gpus_told = state->gpu_count && bti_cards_tell();
    return BT_OK;
}

/* --- in a worker ------------------------------------------------------------------------------------------------------ */

const bti_task_record *bti_gpus_holder(const bti_client *client) {
    return client->actor ? client->actor->maker : client->task;
}

void bti_gpus_show(const bti_state *state, const bti_task_record *task) {
    char list[BTI_MOST_GPUS * BTI_GPU_NAME] = "";
    size_t length = 0;
    if (!task->gpus && !task->hides_gpus) return;
    for (int g = 0; g < state->gpu_count; g++)
        if (task->gpus >> g & 1)
            length +=
                (size_t)snprintf(list + length, sizeof list - length, "%s%s", length ? "," : "", state->gpu_name[g]);
    setenv(mask_variable, list, 1);
    if (isdigit((unsigned char)*list)) setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* as the numbers are counted */
    int64_t amount = task->queue->amounts.of[1];
    if (task->gpus && amount < BTI_UNIT) bti_memory_share((double)amount / BTI_UNIT);
}
