/* Runs kernels in parts, on one thread. */
#ifndef BERTH_TESTS_SUPPORT_KERNEL_PARTS_H
#define BERTH_TESTS_SUPPORT_KERNEL_PARTS_H

#include "support/kernel_cases.h"
#include "drivers/cpu/launch.h"

/* Whether a kernel can be run in parts: reductions, in one sweep. */
static inline bool bti_has_parts(const bti_kernel *kernel) {
    bool reduces = false;
    for (int i = 0; i < kernel->instr_count; i++) reduces = reduces || bti_instr_reduces(&kernel->instrs[i]);
    return reduces && bti_kernel_sweeps(kernel) == 1;
}

/* Runs the chunks of a kernel one after the other, and finishes them. */
static inline void bti_run_in_parts(const bti_runner *runner, const bti_box *whole) {
    const bti_kernel *k = runner->kernel;
    int axis = k->outer + k->reduced - 1, reductions = 0;
    int64_t chunk = k->inner ? BTI_COLUMN_CHUNK : BTI_ROW_CHUNK, points = k->inner ? whole->extent[axis + 1] : 1;
    int64_t index[BTI_MAX_RANK] = {0}, sets = 0, most = (whole->extent[axis] + chunk - 1) / chunk;
    for (int a = 0; a < k->outer; a++) points *= whole->extent[a];
    for (int a = k->outer; a < axis; a++) most *= whole->extent[a];
    for (int i = 0; i < k->instr_count; i++) reductions += bti_instr_reduces(&k->instrs[i]);
    uint64_t *parts = malloc((size_t)(most * reductions * points) * 8);
    bool more = true;
    while (more) {
        for (int64_t i = 0; i < whole->extent[axis]; i += chunk, sets++) {
            bti_box box = *whole;
            for (int a = k->outer; a < axis; a++) box.extent[a] = 1;
            box.extent[axis] = whole->extent[axis] - i < chunk ? whole->extent[axis] - i : chunk;
            index[axis] = i;
            for (int o = 0; o < bti_kernel_operands(k); o++)
                for (int a = k->outer; a <= axis; a++)
                    box.address[o] += (uint64_t)index[a] * (uint64_t)whole->stride[o][a];
            runner->part(runner->code, &box, parts + sets * reductions * points);
        }
        more = false;
        for (int a = axis - 1; a >= k->outer && !more; a--) {
            more = ++index[a] < whole->extent[a];
            if (!more) index[a] = 0;
        }
    }
    runner->finish(runner->code, whole, parts, sets);
    free(parts);
}

#endif
