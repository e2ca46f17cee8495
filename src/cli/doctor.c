#include "cli/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

void doctor_line(const char *what, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    printf("  %-12s ", what);
    vprintf(format, rest);
    printf("\n");
    va_end(rest);
}

static void heading(const char *text) { printf("\n%s%s%s\n", cli_begin(stdout, CLI_BOLD), text, cli_end(stdout)); }

static bool check_flags(void) {
    int set = 0;
    heading("settings");
    bt_device *cpu;
    if (bt_check_flags() != BT_OK ||
        bt_device_find("cpu", &cpu) != BT_OK) { /* or the devices they name are not there */
        doctor_line("fault", "%s%s%s", cli_begin(stdout, CLI_BAD), bt_error_text(), cli_end(stdout));
        return false;
    }
    for (int i = 0; i < bt_flag_count(); i++) {
        bt_flag_info flag = BT_FLAG_INFO_INIT;
        char value[4096];
        if (bt_flag_describe(i, &flag) != BT_OK || !strcmp(flag.origin, "default") || !strcmp(flag.origin, "program"))
            continue;
        if (bt_get_flag(flag.name, value, sizeof value) != BT_OK) continue;
        doctor_line(flag.origin, "%s=%s", flag.name, value);
        set++;
    }
    if (!set) doctor_line("flags", "all as by default; no fault");
    return true;
}

/* What the mask did stands in the reasons, which the library gives per driver: "shows 2 of 4 GPUs". */
static void print_mask(void) {
    const char *mask = getenv("CUDA_VISIBLE_DEVICES");
    int shown = bt_device_count(BT_GPU);
    heading("mask of GPUs");
    if (!mask)
        doctor_line("unset", "CUDA_VISIBLE_DEVICES hides no GPU");
    else
        doctor_line("set", "CUDA_VISIBLE_DEVICES=\"%s\": %d GPU%s left to see", mask, shown,
                    shown == 1 ? " is" : "s are");
}

static void print_memory(bt_kind kind) {
    bt_device *devices[MAX_DEVICES];
    int count = bt_device_list(kind, devices, MAX_DEVICES);
    for (int i = 0; i < count && i < MAX_DEVICES; i++) {
        bt_memory_info memory = BT_MEMORY_INFO_INIT;
        if (bt_memory(devices[i], &memory) != BT_OK) continue;
        doctor_line(bt_device_name(devices[i]), "%s in all, limit %s%s%s%s", cli_bytes(memory.total, "unknown"),
                    cli_bytes(memory.limit, "none"), *memory.limit_source ? " (" : "", memory.limit_source,
                    *memory.limit_source ? ")" : "");
        char *held = cli_processes_text(devices[i]);
        if (held) doctor_line("", "held by %s", *held ? held : "no process");
        free(held);
    }
}

static double milliseconds(uint64_t ns) { return (double)ns * 1e-6; }

/* Without a compiler everything works, more slowly: no fault. */
static void try_compiler(void) {
    bt_compiler_info info = BT_COMPILER_INFO_INIT;
    if (bt_compiler(true, &info) != BT_OK) return;
    doctor_line("vectors", "%s", info.vector);
    if (info.trial_ns)
        doctor_line("LLVM", "%sworks%s: %s, opened in %.1f ms; a small function compiled in %.1f ms, and run",
                    cli_begin(stdout, CLI_GOOD), cli_end(stdout), info.library, milliseconds(info.open_ns),
                    milliseconds(info.trial_ns));
    else
        doctor_line("LLVM", "%snone%s: %s", cli_begin(stdout, CLI_BAD), cli_end(stdout), info.library_reason);
    if (!*info.cache_reason)
        doctor_line("cache", "%s: %" PRIu64 " kernels, %s", info.cache, info.files, cli_bytes(info.bytes, "nothing"));
    else
        doctor_line("cache", "%sunused%s: %s", cli_begin(stdout, CLI_BAD), cli_end(stdout), info.cache_reason);
    doctor_line("so far", "%" PRIu64 " kernels compiled in %.1f ms, %" PRIu64 " found in the cache", info.kernels,
                milliseconds(info.compile_ns), info.hits);
}

static void try_libraries(void) {
    for (int i = 0; i < bt_library_count(); i++) {
        bt_library_info info = BT_LIBRARY_INFO_INIT;
        if (bt_library_describe(i, true, &info) != BT_OK) return;
        if (*info.library)
            doctor_line(info.name, "%sworks%s: %s, opened in %.1f ms", cli_begin(stdout, CLI_GOOD), cli_end(stdout),
                        info.library, milliseconds(info.open_ns));
        else
            doctor_line(info.name, "%snone%s: %s", cli_begin(stdout, CLI_BAD), cli_end(stdout), info.reason);
    }
}

int cli_doctor(int argc, char **argv) {
    bool json;
    int code = cli_only_json(argc, argv, &json);
    if (code != CLI_OK) return code;
    if (bt_set_flag("probe", "open") != BT_OK) return cli_error(argv, "probe");
    if (json) return doctor_print_json();
    printf("berth %s\n", BERTH_VERSION);
    bool good = check_flags();
    print_mask();
    heading("devices");
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) good &= doctor_check_kind((bt_kind)kind) || kind != BT_CPU;
    heading("devices opened, in a process of their own");
    doctor_print_opened();
    heading("memory");
    for (int kind = 0; kind < BT_KIND_COUNT; kind++) print_memory((bt_kind)kind);
    heading("compiler");
    try_compiler();
    heading("products");
    try_libraries();
    heading("machine");
    doctor_print_machine();
    return good ? CLI_OK : CLI_FAILED;
}
