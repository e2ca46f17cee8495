// timeout: 1500
/* Texts in CUDA C through NVRTC, for two architectures (in turn, or both with BERTH_TEST_LONG), no GPU needed: kernels written by hand, drawn ones, and all that the
 * conformance suite and the examples ask for (the test `recorded` notes them): a draw of these, all with
 * BERTH_TEST_LONG. What each entry needs goes to registers.txt of the build; who spills registers must stand in
 * tests/render/spills.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/test_depth.h"
#include "ir/attention.h"
#include "launch/attention_tile.h"
#include "launch/entry.h"
#include "render/c.h"
#include "support/render_kernels.h"
#include "support/recorded_program.h"
#include "support/golden_texts.h"
#include "support/find_nvrtc.h"

static struct {
    int (*create)(void **program, const char *text, const char *name, int headers, const void *a, const void *b);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*destroy)(void **program);
    int (*version)(int *major, int *minor);
} nvrtc;

/* --- the library -------------------------------------------------------------------------------------------------- */

static bool open_nvrtc(void) {
    found_nvrtc found;
    void *library = find_nvrtc(&found) ? dlopen(found.path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return false;
#define FIND(member, name) *(void **)(void *)&nvrtc.member = dlsym(library, name)
    FIND(create, "nvrtcCreateProgram");
    FIND(compile, "nvrtcCompileProgram");
    FIND(log_size, "nvrtcGetProgramLogSize");
    FIND(log, "nvrtcGetProgramLog");
    FIND(destroy, "nvrtcDestroyProgram");
    FIND(version, "nvrtcVersion");
    return nvrtc.create && nvrtc.compile && nvrtc.log_size && nvrtc.log && nvrtc.destroy && nvrtc.version;
}

/* --- what the compiler tells -------------------------------------------------------------------------------------- */

static FILE *report;
static char *spills_allowed;
static int texts, compiled, entries, most_registers, failed;

/* tests/render/spills.txt: a line "kernel entry: reason", the kernel by its operations. */
static bool may_spill(const char *kernel, const char *entry) {
    char line[160];
    snprintf(line, sizeof line, "%s %s: ", kernel, entry);
    const char *found = spills_allowed ? strstr(spills_allowed, line) : NULL;
    return found && (found == spills_allowed || found[-1] == '\n');
}

/* Two groups of BTI_GROUP threads have room on a multiprocessor: registers, and static local memory on the cards that have the least
 * (100 KiB). Not asked of a text's KERNEL_ALONE, where it says why. */
static bool two_groups_fit(const char *text, const char *entry, int registers, int local_bytes) {
    char alone[96], own[96];
    snprintf(alone, sizeof alone, "KERNEL_ALONE(%d) %s(", BTI_GROUP, entry);
    snprintf(own, sizeof own, "KERNEL_ALONE(GROUP_THREADS) %s(", entry);
    return strstr(text, alone) || strstr(text, own) ||
           (registers * BTI_GROUP <= 65536 / 2 && local_bytes <= (100 << 10) / 2);
}

static int local_bytes_of(const char *used) {
    const char *end = strchr(used, '\n'), *bytes = strstr(used, " bytes smem");
    if (!bytes || (end && bytes > end)) return 0;
    while (bytes > used && bytes[-1] >= '0' && bytes[-1] <= '9') bytes--;
    return atoi(bytes);
}

static void read_log(const char *log, const char *text, const char *kernel, const char *which, const char *target) {
    static const char head[] = "Compiling entry function '";
    for (const char *at = log; (at = strstr(at, head)) != NULL;) {
        char entry[64];
        int stack = 0, stores = 0, registers = 0;
        at += sizeof head - 1;
        assert_int_equal(sscanf(at, "%63[^']", entry), 1);
        const char *next = strstr(at, head), *frame = strstr(at, "bytes stack frame"), *used = strstr(at, "Used ");
        if (next && used > next) used = NULL;
        assert_non_null(frame);
        assert_non_null(used);
        while (frame > at && (frame[-1] == ' ' || (frame[-1] >= '0' && frame[-1] <= '9'))) frame--;
        assert_int_equal(sscanf(frame, "%d bytes stack frame, %d bytes spill stores", &stack, &stores), 2);
        assert_int_equal(sscanf(used, "Used %d registers", &registers), 1);
        fprintf(report, "%3d %6d %6d  %s  %-13s %-12s %s\n", registers, stores, stack, target, entry, which, kernel);
        if (registers > most_registers) most_registers = registers;
        entries++;
        if (!two_groups_fit(text, entry, registers, local_bytes_of(used))) {
            print_error(
                "%s of %s (%s, %s) takes %d registers and %d bytes of local memory: one group a multiprocessor\n",
                entry, kernel, which, target, registers, local_bytes_of(used));
            failed++;
        }
        if (!stores || may_spill(kernel, entry)) continue;
        print_error("%s of %s (%s, %s) spills %d bytes\n", entry, kernel, which, target, stores);
        failed++;
    }
}

static void compile(const char *text, const char *kernel, const char *which) {
    static const char *const targets[] = {"sm_80", "sm_90"};
    for (int t = 0; t < 2; t++) {
        if (!test_is_long() && t != texts % 2) continue; /* the other one for the next text */
        void *program;
        char architecture[32];
        size_t size = 0;
        snprintf(architecture, sizeof architecture, "-arch=%s", targets[t]);
        const char *const options[] = {architecture, "--fmad=false", "--ptxas-options=-v"};
        assert_int_equal(nvrtc.create(&program, text, kernel, 0, NULL, NULL), 0);
        int code = nvrtc.compile(program, 3, options);
        assert_int_equal(nvrtc.log_size(program, &size), 0);
        char *log = calloc(1, size + 1);
        assert_non_null(log);
        assert_int_equal(nvrtc.log(program, log), 0);
        if (code != 0) {
            print_error("%s (%s):\n%s\n", kernel, which, log);
            failed++;
        } else
            read_log(log, text, kernel, which, targets[t]);
        compiled++;
        free(log);
        nvrtc.destroy(&program);
    }
    texts++;
}

static void compile_kernel(const bti_kernel *kernel, const char *which) {
    char name[96];
    bti_str text = {0};
    bti_kernel_name(name, sizeof name, kernel);
    assert_true(bti_render_c(&text, kernel, BTI_ENTRY_END, BTI_CUDA_C));
    compile(text.text, name, which);
    bti_str_free(&text);
}

/* --- what is compiled --------------------------------------------------------------------------------------------- */

static void kernels_written(void **state) {
    static bti_kernel kernel;
    for (int k = 0; k < KERNELS_BY_HAND; k++) {
        kernels_by_hand[k](&kernel);
        compile_kernel(&kernel, "by hand");
    }
    assert_int_equal(failed, 0);
}

static void kernels_drawn(void **state) {
    unsigned long long from = 0, to = test_is_long() ? 200 : 8;
    const char *seeds = getenv("BERTH_RENDER_SEEDS");
    if (seeds) assert_int_equal(sscanf(seeds, "%llu-%llu", &from, &to), 2);
    for (uint64_t seed = from; seed < to; seed++) {
        static bti_kernel kernel;
        char which[32];
        uint64_t random = seed * 104729 + 1;
        draw_kernel(&kernel, &random);
        snprintf(which, sizeof which, "seed %d", (int)seed);
        compile_kernel(&kernel, which);
    }
    assert_int_equal(failed, 0);
}

/* Primitives that have texts of their own; the others are copies, or kernels of one instruction. */
static bool has_text(bti_op op) {
    switch (op) {
    case BTI_OP_cumsum:
    case BTI_OP_cumprod:
    case BTI_OP_cummax:
    case BTI_OP_cummin:
    case BTI_OP_take:
    case BTI_OP_scatter_add:
    case BTI_OP_update_slice:
    case BTI_OP_sort:
    case BTI_OP_top_k:
    case BTI_OP_gather_axis:
    case BTI_OP_scatter_axis:
    case BTI_OP_attention:
    case BTI_OP_attention_gradient:
    case BTI_OP_scatter_set:
    case BTI_OP_scatter_max:
    case BTI_OP_scatter_min:
    case BTI_OP_conv:
    case BTI_OP_conv_data:
    case BTI_OP_conv_weights:
    case BTI_OP_matmul: return true;
    default: return false;
    }
}

/* Each of them for some dtypes; all with BERTH_TEST_LONG. */
static void primitives(void **state) {
    static const bt_dtype dtypes[] = {BT_F32, BT_I64, BT_BF16, BT_I8, BT_F64, BT_BOOL, BT_F16, BT_U16};
    for (int op = 0; op < BTI_OP_COUNT; op++) {
        if (!has_text((bti_op)op)) continue;
        for (int d = 0; d < (test_is_long() ? 8 : 2); d++) {
            if (bti_op_is_attention((bti_op)op)) continue;
            bt_dtype in[BTI_SOURCE_DTYPES] = {dtypes[d],
                                              op == BTI_OP_matmul ? dtypes[d]
                                              : d % 2             ? BT_I32
                                                                  : BT_I64,
                                              dtypes[d], dtypes[d]};
            bti_str text = {0};
            assert_true(bti_render_c_work(&text, (bti_op)op, in, bti_op_info((bti_op)op)->arity + 1, BTI_CUDA_C, 0));
            compile(text.text, bti_op_info((bti_op)op)->name, bt_dtype_name(dtypes[d]));
            bti_str_free(&text);
        }
    }
    assert_int_equal(failed, 0);
}

/* Each text with each tile; a draw of them without BERTH_TEST_LONG. */
static void attentions(void **state) {
    static const bt_dtype dtypes[] = {BT_F32, BT_F64};
    for (int d = 0; d < 2; d++)
        for (int variant = 0; variant < BTI_ATTENTION_VARIANTS; variant++) {
            bti_attention_text which = bti_attention_text_of(variant);
            bti_op op = which < BTI_ATTEND_MEANS ? BTI_OP_attention : BTI_OP_attention_gradient;
            bool has_tile = bti_attention_tile_of(which, BTI_TILE_SMALL, dtypes[d]).local_bytes > 0;
            bti_str text = {0};
            char name[32];
            if (!has_tile && bti_attention_size_of(variant)) continue;
            if (variant && !test_is_drawn(4)) continue;
            snprintf(name, sizeof name, "attention %d", variant);
            assert_true(bti_render_c_work(&text, op, &dtypes[d], 1, BTI_CUDA_C, variant));
            compile(text.text, name, bt_dtype_name(dtypes[d]));
            bti_str_free(&text);
        }
    assert_int_equal(failed, 0);
}

/* What runs around linear algebra by a library. */
static void factors(void **state) {
    static const bt_dtype dtypes[] = {BT_F32, BT_C128};
    for (int d = 0; d < 2; d++) {
        bti_str text = {0};
        assert_true(bti_render_c_factor(&text, dtypes[d], BTI_CUDA_C));
        compile(text.text, "linear algebra", bt_dtype_name(dtypes[d]));
        bti_str_free(&text);
    }
    assert_int_equal(failed, 0);
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(recorded_program)); }

static void compile_work(const recorded_program *program) {
    bt_dtype dtypes[BTI_SOURCE_DTYPES];
    bti_str text = {0};
    for (int i = 0; i < program->dtype_count; i++) dtypes[i] = (bt_dtype)program->dtypes[i];
    int variant = program->op == BTI_OP_attention_gradient ? bti_attention_variant(BTI_ATTEND_MEANS, 0) : 0;
    assert_true(bti_render_c_work(&text, (bti_op)program->op, dtypes, program->dtype_count, BTI_CUDA_C, variant));
    compile(text.text, bti_op_info((bti_op)program->op)->name, "recorded");
    bti_str_free(&text);
}

static void compile_product(const bti_kernel *kernel, int made, bt_dtype dtype, const char *what) {
    bti_str text = {0};
    assert_true(bti_render_c_product(&text, kernel, made, dtype, BTI_CUDA_C));
    compile(text.text, "matmul with an epilogue", what);
    bti_str_free(&text);
}

static void epilogues(void **state) {
    static bti_kernel kernel;
    map_kernel(&kernel);
    compile_product(&kernel, 0, BT_F32, "by hand");
    assert_int_equal(failed, 0);
}

/* The file holds what several processes wrote, each its own once. */
static void programs_recorded(void **state) {
    FILE *file = fopen(BERTH_BUILD_DIR "/recording/programs", "rb");
    if (!file) {
        print_message("nothing was recorded: run the test `recorded` first\n");
        skip();
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t count = (size_t)ftell(file) / sizeof(recorded_program), kernels = 0;
    uint64_t share = test_is_long() ? 1 : 200;
    recorded_program *programs = malloc(count * sizeof *programs);
    assert_non_null(programs);
    rewind(file);
    assert_int_equal(fread(programs, sizeof *programs, count, file), count);
    fclose(file);
    qsort(programs, count, sizeof *programs, by_bytes);
    for (size_t i = 0; i < count; i++) {
        if (i && by_bytes(&programs[i], &programs[i - 1]) == 0) continue;
        kernels += (size_t)programs[i].is_kernel;
        if (!programs[i].is_kernel && has_text((bti_op)programs[i].op)) {
            if (test_is_drawn(5)) compile_work(&programs[i]);
        }
        if (!programs[i].is_kernel || bti_kernel_hash(&programs[i].kernel) % share) continue;
        if (programs[i].op == BTI_OP_matmul)
            compile_product(&programs[i].kernel, programs[i].made, (bt_dtype)programs[i].dtypes[2], "recorded");
        else
            compile_kernel(&programs[i].kernel, "recorded");
    }
    free(programs);
    assert_true(kernels > 100);
    assert_int_equal(failed, 0);
}

static int begin(void **state) {
    int major = 0, minor = 0;
    report = fopen(BERTH_BUILD_DIR "/registers.txt", "w");
    if (!report || nvrtc.version(&major, &minor) != 0) return -1;
    fprintf(report, "NVRTC %d.%d. Registers, bytes spilled, bytes of stack\n", major, minor);
    spills_allowed = whole_file(BERTH_SOURCE_DIR "/tests/render/spills.txt");
    return spills_allowed ? 0 : -1;
}

static int end(void **state) {
    print_message("%d programs compiled, %d entries, at most %d registers\n", compiled, entries, most_registers);
    bti_free(spills_allowed);
    return fclose(report);
}

int main(void) {
    if (!open_nvrtc()) {
        puts("skipped: there is no NVRTC (libnvrtc.so.12 or .13)");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_written),  cmocka_unit_test(kernels_drawn),
                                       cmocka_unit_test(primitives),       cmocka_unit_test(attentions),
                                       cmocka_unit_test(factors),          cmocka_unit_test(epilogues),
                                       cmocka_unit_test(programs_recorded)};
    return cmocka_run_group_tests(tests, begin, end);
}
