/* `berth doctor`: settings, devices, compiler, libraries and the machine; what works, and why something does not. */
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "cli/cli.h"

enum { MAX_DEVICES = 64 };

/* "  what         text" */
__attribute__((format(printf, 2, 3))) static void print_item(const char *what, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    printf("  %-12s ", what);
    vprintf(format, rest);
    printf("\n");
    va_end(rest);
}

static void print_heading(const char *text) {
    printf("\n%s%s%s\n", cli_begin(stdout, CLI_BOLD), text, cli_end(stdout));
}

static bool check_flags(void) {
    int set = 0;
    print_heading("settings");
    bt_device *cpu;
    if (bt_check_flags() != BT_OK ||
        bt_device_find("cpu", &cpu) != BT_OK) { /* fails also when a setting names a missing device */
        print_item("error", "%s%s%s", cli_begin(stdout, CLI_BAD), bt_error_text(), cli_end(stdout));
        return false;
    }
    for (int i = 0; i < bt_flag_count(); i++) {
        bt_flag_info flag = BT_FLAG_INFO_INIT;
        char value[4096];
        if (bt_flag_describe(i, &flag) != BT_OK || !strcmp(flag.origin, "default") || !strcmp(flag.origin, "program"))
            continue;
        if (bt_get_flag(flag.name, value, sizeof value) != BT_OK) continue;
        print_item(flag.origin, "%s=%s", flag.name, value);
        set++;
    }
    if (!set) print_item("flags", "all have their defaults; no error");
    return true;
}

/* The effect of the mask is among the reasons of the kind: "shows 2 of 4 GPUs". */
static void print_mask(void) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    int shown = bt_device_count(BT_GPU);
    print_heading("mask of GPUs");
    if (!mask)
        print_item("unset", "CUDA_VISIBLE_DEVICES hides no GPU");
    else
        print_item("set", "CUDA_VISIBLE_DEVICES=\"%s\": %d visible GPU%s", mask, shown, shown == 1 ? "" : "s");
}

/* --- devices -------------------------------------------------------------------------------------------------------- */

/* Calls `visit` for each line. */
static void visit_lines(const char *text, void (*visit)(const char *line, int length, void *data), void *data) {
    while (text && *text) {
        int length = (int)strcspn(text, "\n");
        visit(text, length, data);
        text += length + (text[length] == '\n');
    }
}

static void print_indented(const char *line, int length, void *data) {
    (void)data;
    printf("         %.*s\n", length, line);
}

static void append_line(const char *line, int length, void *list) {
    json_array_append_new(list, json_stringn(line, (size_t)length));
}

static json_t *lines_as_json(const char *text) {
    json_t *list = json_array();
    visit_lines(text, append_line, list);
    return list;
}

/* Prints whether the kind has a device that works, and a line for each step that was tried. */
static bool check_kind(bt_kind kind) {
    char *reason = NULL;
    bool works = bt_functional(kind, &reason);
    printf("  %-4s %s%s%s\n", bt_kind_name(kind), cli_begin(stdout, works ? CLI_GOOD : CLI_BAD),
           works ? "works" : "none", cli_end(stdout));
    visit_lines(reason, print_indented, NULL);
    bt_free(reason);
    return works;
}

/* Prints what a child process that opened the devices found out. */
static void print_opened_devices(void) {
    bool any = false;
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        bt_device *devices[MAX_DEVICES];
        int count = bt_device_list((bt_kind)kind, devices, MAX_DEVICES);
        for (int i = 0; i < count && i < MAX_DEVICES; i++) {
            bt_device_info info = BT_DEVICE_INFO_INIT;
            if (bt_device_describe(devices[i], &info) != BT_OK || !*info.details) continue;
            printf("  %s: %s (driver %s %s)\n", info.name, info.description, info.driver, info.driver_version);
            visit_lines(info.details, print_indented, NULL);
            any = true;
        }
    }
    if (!any) print_item("none", "no device needs a third-party library");
}

static void print_memory(bt_kind kind) {
    bt_device *devices[MAX_DEVICES];
    int count = bt_device_list(kind, devices, MAX_DEVICES);
    for (int i = 0; i < count && i < MAX_DEVICES; i++) {
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        if (bt_memory(devices[i], &memory) != BT_OK) continue;
        print_item(bt_device_name(devices[i]), "%s in total, limit %s%s%s%s", cli_bytes(memory.total, "unknown"),
                   cli_bytes(memory.limit, "none"), *memory.limit_source ? " (" : "", memory.limit_source,
                   *memory.limit_source ? ")" : "");
        char *held = cli_processes_text(devices[i]);
        if (held) print_item("", "held by %s", *held ? held : "no process");
        free(held);
    }
}

/* Whether the energy of each device can be read; that it cannot is no error. */
static void print_energy(bt_kind kind) {
    bt_device *devices[MAX_DEVICES];
    int count = bt_device_list(kind, devices, MAX_DEVICES);
    for (int i = 0; i < count && i < MAX_DEVICES; i++) {
        double joules;
        char *reason;
        bool known = bt_device_energy(devices[i], &joules, &reason);
        print_item(bt_device_name(devices[i]), "%s%s%s%s", cli_begin(stdout, known ? CLI_GOOD : CLI_BAD),
                   known ? "can be read" : "unknown: ", cli_end(stdout), reason ? reason : "");
        bt_free(reason);
    }
}

static double milliseconds(uint64_t ns) { return (double)ns * 1e-6; }

/* A missing compiler is no error: everything works without it, more slowly. */
static void check_compiler(void) {
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    if (bt_compiler(true, &info) != BT_OK) return;
    print_item("vectors", "%s", info.vector);
    if (info.trial_ns)
        print_item("LLVM", "%sworks%s: %s, opened in %.1f ms; a small function compiled in %.1f ms and ran",
                   cli_begin(stdout, CLI_GOOD), cli_end(stdout), info.library, milliseconds(info.open_ns),
                   milliseconds(info.trial_ns));
    else
        print_item("LLVM", "%snone%s: %s", cli_begin(stdout, CLI_BAD), cli_end(stdout), info.library_reason);
    if (!*info.cache_reason)
        print_item("cache", "%s: %" PRIu64 " kernels, %s", info.cache, info.files, cli_bytes(info.bytes, "nothing"));
    else
        print_item("cache", "%sunused%s: %s", cli_begin(stdout, CLI_BAD), cli_end(stdout), info.cache_reason);
    print_item("so far", "%" PRIu64 " kernels compiled in %.1f ms, %" PRIu64 " found in the cache", info.kernels,
               milliseconds(info.compile_ns), info.hits);
}

static void check_libraries(void) {
    for (int i = 0; i < bt_library_count(); i++) {
        bt_library_info info = BT_LIBRARY_INFO_INIT;
        if (bt_library_describe(i, true, &info) != BT_OK) return;
        if (*info.library)
            print_item(info.name, "%sworks%s: %s, opened in %.1f ms", cli_begin(stdout, CLI_GOOD), cli_end(stdout),
                       info.library, milliseconds(info.open_ns));
        else
            print_item(info.name, "%snone%s: %s", cli_begin(stdout, CLI_BAD), cli_end(stdout), info.reason);
    }
}

/* --- the machine ---------------------------------------------------------------------------------------------------- */

/* "0-3,8": the CPUs that this process may run on. */
static void print_affinity(void) {
    cpu_set_t set;
    char text[1024] = "";
    size_t used = 0;
    if (sched_getaffinity(0, sizeof set, &set)) return print_item("affinity", "unknown");
    for (int from = 0, to; from < CPU_SETSIZE && used < sizeof text - 32; from = to + 1) {
        to = from;
        if (!CPU_ISSET(from, &set)) continue;
        while (to + 1 < CPU_SETSIZE && CPU_ISSET(to + 1, &set)) to++;
        used += (size_t)snprintf(text + used, sizeof text - used, to > from ? "%s%d-%d" : "%s%d", used ? "," : "", from,
                                 to);
    }
    print_item("affinity", "%d of them: %s", CPU_COUNT(&set), text);
}

static void print_cgroup(void) {
    bti_cgroup group;
    bti_cgroup_read(&group);
    const char *folder = *group.cpu_folder ? group.cpu_folder : group.memory_folder;
    if (!*folder || access(folder, R_OK)) return print_item("cgroup", "none visible");
    char text[32] = "all CPUs";
    if (group.cpus > 0) snprintf(text, sizeof text, "%.2f CPUs", group.cpus);
    uint64_t bytes = group.memory_bytes == SIZE_MAX ? 0 : group.memory_bytes;
    print_item("cgroup", "%s, memory limit %s; %s", text, cli_bytes(bytes, "none"), folder);
}

static void print_machine(void) {
    struct utsname name;
    if (!uname(&name)) print_item("system", "%s %s, %s", name.sysname, name.release, name.machine);
    print_item("CPUs", "%ld of %ld online", sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF));
    print_affinity();
    print_cgroup();
}

/* --- JSON ----------------------------------------------------------------------------------------------------------- */

static json_t *device_as_json(const bt_device *device) {
    bt_device_info info = BT_DEVICE_INFO_INIT;
    if (bt_device_describe(device, &info) != BT_OK) return json_null();
    json_t *capability = json_null();
    if (info.capability_major) capability = json_sprintf("%d.%d", info.capability_major, info.capability_minor);
    double joules;
    char *reason;
    bool known = bt_device_energy(device, &joules, &reason);
    json_t *energy = json_pack("{s:b, s:s?}", "known", known, "why", reason);
    bt_free(reason);
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:o}", "name", info.name, "description", info.description,
                     "driver", info.driver, "driver_version", info.driver_version, "compute_capability", capability,
                     "memory_bytes", (json_int_t)info.memory_bytes, "details", lines_as_json(info.details), "energy",
                     energy);
}

static json_t *kind_as_json(bt_kind kind, bool *works) {
    char *reason = NULL;
    bt_device *devices[MAX_DEVICES];
    json_t *list = json_array();
    *works = bt_functional(kind, &reason);
    int count = bt_device_list(kind, devices, MAX_DEVICES);
    for (int i = 0; i < count && i < MAX_DEVICES; i++) json_array_append_new(list, device_as_json(devices[i]));
    json_t *all = json_pack("{s:s, s:b, s:o, s:o}", "kind", bt_kind_name(kind), "works", *works, "reasons",
                            lines_as_json(reason), "devices", list);
    bt_free(reason);
    return all;
}

static int print_json(void) {
    json_t *kinds = json_array();
    bool works, good = bt_check_flags() == BT_OK;
    json_t *fault = good ? json_null() : json_string(bt_error_text());
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) {
        json_array_append_new(kinds, kind_as_json((bt_kind)kind, &works));
        good = good && (works || kind != BT_CPU);
    }
    json_t *all =
        json_pack("{s:s, s:b, s:o, s:o}", "version", BERTH_VERSION, "good", good, "fault", fault, "kinds", kinds);
    int printed = cli_print_json(all);
    return printed != CLI_OK ? printed : good ? CLI_OK : CLI_FAILED;
}

int cli_doctor(int argc, char **argv) {
    bool json;
    int code = cli_only_json(argc, argv, &json);
    if (code != CLI_OK) return code;
    if (bt_set_flag("probe", "open") != BT_OK) return cli_error(argv, "probe");
    if (json) return print_json();
    printf("berth %s\n", BERTH_VERSION);
    bool good = check_flags();
    print_mask();
    print_heading("devices");
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) good &= check_kind((bt_kind)kind) || kind != BT_CPU;
    print_heading("devices opened in a child process");
    print_opened_devices();
    print_heading("memory");
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) print_memory((bt_kind)kind);
    print_heading("energy");
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) print_energy((bt_kind)kind);
    print_heading("compiler");
    check_compiler();
    print_heading("matrix products");
    check_libraries();
    print_heading("machine");
    print_machine();
    return good ? CLI_OK : CLI_FAILED;
}
