#include "drivers/cpu/check.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/error.h"
#include "drivers/cpu/launch.h"
#include "drivers/cpu/target.h"
#include "launch/turned.h"
#include "ir/dtype.h"

#define TARGETS ((bti_target)(BTI_LLVM_NEON + 1))

typedef struct target_variants {
    bti_blocks *blocks; /* NULL: the CPU does not have the target */
    bti_compiled *compiled[BTI_CPU_TEXTS];
    bool given[BTI_CPU_TEXTS];
} target_variants;

struct bti_check {
    bti_kernel kernel;
    target_variants of[TARGETS];
};

/* --- making ------------------------------------------------------------------------------------------------------- */

bt_status bti_check_make(const bti_kernel *kernel, bti_check **made) {
    bti_check *check = bti_calloc(1, sizeof *check);
    if (!check) return bti_no_memory();
    check->kernel = *kernel;
    bt_status status = BT_OK;
    for (bti_target target = 0; target < TARGETS && status == BT_OK; target++)
        if (bti_cpu_has(target)) status = bti_blocks_make(kernel, target, &check->of[target].blocks);
    if (status != BT_OK) {
        bti_check_free(check);
        return status;
    }
    *made = check;
    return BT_OK;
}

bool bti_check_wants(bti_check *check, unsigned variants, bti_target *target, bti_cpu_text *variant) {
    for (*target = 0; *target < TARGETS; ++*target)
        for (*variant = 0; *variant < BTI_CPU_TEXTS; ++*variant)
            if (variants >> *variant & 1 && check->of[*target].blocks && !check->of[*target].given[*variant])
                return true;
    return false;
}

/* Without LLVM there is nothing to compare with; that is not an error. */
bt_status bti_check_give(bti_check *check, bti_target target, bti_cpu_text variant, const bti_str *text) {
    target_variants *of = &check->of[target];
    if (of->given[variant]) return BT_OK;
    of->given[variant] = true;
    if (text->failed) return BT_OK;
    bool before = bti_errors_quiet(true);
    bt_status status = bti_compiled_get(&check->kernel, text, target, &of->compiled[variant]);
    bti_errors_quiet(before);
    return status == BT_UNAVAILABLE ? BT_OK : status;
}

void bti_check_free(bti_check *check) {
    if (!check) return;
    for (bti_target target = 0; target < TARGETS; target++) {
        bti_blocks_free(check->of[target].blocks);
        for (int variant = 0; variant < BTI_CPU_TEXTS; variant++)
            bti_compiled_free(check->of[target].compiled[variant]);
    }
    bti_free(check);
}

/* --- outputs, packed ---------------------------------------------------------------------------------------------- */

typedef struct check_job {
    bti_check *check;
    const bti_box *box;
    unsigned char *original, *expected, *got; /* all outputs, one after the other */
    char first[48];                           /* the variant that `expected` comes from */
} check_job;

static int64_t output_points(const check_job *j, int output) {
    const bti_kernel *kernel = &j->check->kernel;
    int64_t points = 1;
    for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
        if (kernel->operands[output].moves >> axis & 1) points *= j->box->extent[axis];
    return points;
}

static size_t output_element_size(const check_job *j, int output) {
    return bt_dtype_size((bt_dtype)j->check->kernel.operands[output].dtype);
}

/* Copies an output's elements from memory (or back), row-major. */
static void copy_output(const check_job *j, int output, unsigned char *packed, bool back) {
    const bti_kernel *kernel = &j->check->kernel;
    size_t size = output_element_size(j, output);
    int64_t index[BTI_MAX_RANK] = {0}, points = output_points(j, output);
    for (int64_t point = 0; point < points; point++, packed += size) {
        uint64_t address = j->box->address[output];
        for (int axis = 0; axis < bti_kernel_axes(kernel); axis++)
            address += (uint64_t)index[axis] * (uint64_t)j->box->stride[output][axis];
        void *element = (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
        memcpy(back ? element : packed, back ? packed : element, size);
        for (int axis = bti_kernel_axes(kernel) - 1; axis >= 0; index[axis--] = 0) {
            if (!(kernel->operands[output].moves >> axis & 1)) continue;
            if (++index[axis] < j->box->extent[axis]) break;
        }
    }
}

static void copy_outputs(const check_job *j, unsigned char *packed, bool back) {
    const bti_kernel *kernel = &j->check->kernel;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        copy_output(j, o, packed, back);
        packed += (size_t)output_points(j, o) * output_element_size(j, o);
    }
}

static bool is_nan_bits(bt_dtype dtype, uint64_t bits) {
    switch (dtype) {
    case BT_F16: return (bits & 0x7FFF) > 0x7C00;
    case BT_BF16: return (bits & 0x7FFF) > 0x7F80;
    case BT_F32: return (bits & 0x7FFFFFFF) > 0x7F800000;
    case BT_F64: return (bits & UINT64_MAX >> 1) > (uint64_t)0x7FF << 52;
    default: return false;
    }
}

static bt_status compare_output(const check_job *j, int output, const char *way, const unsigned char *expected,
                                const unsigned char *got) {
    bt_dtype dtype = (bt_dtype)j->check->kernel.operands[output].dtype;
    size_t size = output_element_size(j, output);
    int64_t points = output_points(j, output);
    if (memcmp(expected, got, (size_t)points * size) == 0) return BT_OK;
    for (int64_t point = 0; point < points; point++) {
        uint64_t a = 0, b = 0;
        memcpy(&a, expected + (size_t)point * size, size);
        memcpy(&b, got + (size_t)point * size, size);
        if (a == b || (is_nan_bits(dtype, a) && is_nan_bits(dtype, b))) continue;
        bti_str text = {0};
        bti_kernel_text(&text, &j->check->kernel);
        for (int axis = 0; axis < bti_kernel_axes(&j->check->kernel); axis++)
            bti_str_addf(&text, "  extent %lld\n", (long long)j->box->extent[axis]);
        bt_status status = bti_fail(
            BT_INTERNAL, "the flag check_kernels: element %lld of output %d is %llx by %s, %llx by %s\n%s",
            (long long)point, output, (unsigned long long)a, j->first, (unsigned long long)b, way, bti_str_text(&text));
        bti_str_free(&text);
        return status;
    }
    return BT_OK;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Compares the outputs with those of the first variant, and restores them. */
static bt_status compare_outputs(check_job *j, const char *way) {
    const bti_kernel *kernel = &j->check->kernel;
    bool first = !*j->first;
    copy_outputs(j, first ? j->expected : j->got, false);
    copy_outputs(j, j->original, true);
    if (first) {
        snprintf(j->first, sizeof j->first, "%s", way);
        return BT_OK;
    }
    const unsigned char *expected = j->expected, *got = j->got;
    for (int o = kernel->input_count; o < bti_kernel_operands(kernel); o++) {
        BTI_TRY(compare_output(j, o, way, expected, got));
        expected += (size_t)output_points(j, o) * output_element_size(j, o);
        got += (size_t)output_points(j, o) * output_element_size(j, o);
    }
    return BT_OK;
}

static bt_status run_variant(check_job *j, bti_target target, const char *kind, const bti_blocks *blocks,
                             const bti_code *code) {
    const bti_kernel *kernel = &j->check->kernel;
    for (int cores = 0; cores <= 2; cores++) {
        char way[sizeof j->first];
        snprintf(way, sizeof way, "%s for %s%s", kind, bti_target_name(target),
                 cores == 0   ? " at once"
                 : cores == 1 ? " on one core"
                              : " on two cores");
        if (cores == 0) {
            bti_box turned;
            bool turns = code && code->variant == BTI_TEXT_TURNED;
            if (turns) bti_box_turn(kernel, j->box, &turned);
            bti_runner runner = blocks ? bti_blocks_runner(kernel, blocks) : bti_compiled_runner(kernel, code);
            runner.run(runner.code, turns ? &turned : j->box);
        } else {
            int before = bti_cores_limit(cores);
            bt_status status =
                blocks ? bti_launch_blocks(kernel, blocks, j->box) : bti_launch_compiled(kernel, code, j->box);
            bti_cores_limit(before);
            BTI_TRY(status);
        }
        BTI_TRY(compare_outputs(j, way));
    }
    return BT_OK;
}

static bt_status run_variants(check_job *j, unsigned variants) {
    static const char *const kinds[BTI_CPU_TEXTS] = {"compiled code", "streaming code", "turned code", "narrow code"};
    for (bti_target target = 0; target < TARGETS; target++) {
        const target_variants *w = &j->check->of[target];
        if (w->blocks) BTI_TRY(run_variant(j, target, "blocks", w->blocks, NULL));
        const void *const *functions = w->blocks ? bti_functions_of(target) : NULL;
        for (bti_cpu_text v = 0; v < BTI_CPU_TEXTS; v++)
            if (variants >> v & 1 && w->compiled[v] && w->compiled[v]->run)
                BTI_TRY(run_variant(j, target, kinds[v], NULL, &(bti_code){w->compiled[v], functions, v}));
    }
    return BT_OK;
}

bt_status bti_check_run(bti_check *check, const bti_box *box, unsigned variants) {
    check_job j = {.check = check, .box = box};
    size_t bytes = 0;
    for (int o = check->kernel.input_count; o < bti_kernel_operands(&check->kernel); o++)
        bytes += (size_t)output_points(&j, o) * output_element_size(&j, o);
    j.original = bti_alloc(3 * bytes);
    if (!j.original) return bti_no_memory();
    j.expected = j.original + bytes;
    j.got = j.expected + bytes;
    copy_outputs(&j, j.original, false);
    bt_status status = run_variants(&j, variants);
    copy_outputs(&j, j.original, true);
    bti_free(j.original);
    return status;
}
