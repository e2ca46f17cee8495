#include "drivers/cpu/code.h"

static void run_compiled(const void *code, const bti_box *box) {
    const bti_code *c = code;
    if (c->half)
        c->compiled->run_pair(box->extent, box->scalars, box->address, *box->stride, c->functions, c->half);
    else
        c->compiled->run(box->extent, box->scalars, box->address, *box->stride, c->functions);
#if defined(__x86_64__)
    if (c->streams) __builtin_ia32_sfence(); /* before another thread is told that it is done */
#endif
}
static void part_compiled(const void *code, const bti_box *box, uint64_t *parts) {
    const bti_code *c = code;
    c->compiled->part(box->extent, box->scalars, box->address, *box->stride, c->functions, parts);
}
static void finish_compiled(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    const bti_code *c = code;
    c->compiled->finish(box->extent, box->scalars, box->address, *box->stride, c->functions, parts, count);
}

static void run_blocks(const void *code, const bti_box *box) { bti_blocks_run(code, box); }
static void part_blocks(const void *code, const bti_box *box, uint64_t *parts) { bti_blocks_part(code, box, parts); }
static void finish_blocks(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    bti_blocks_finish(code, box, parts, count);
}

bti_runner bti_blocks_runner(const bti_kernel *kernel, const bti_blocks *blocks) {
    return (bti_runner){kernel, blocks, run_blocks, part_blocks, finish_blocks};
}

bti_runner bti_compiled_runner(const bti_kernel *kernel, const bti_code *code) {
    bool parts = code->compiled->part && code->compiled->finish;
    return (bti_runner){kernel, code, run_compiled, parts ? part_compiled : NULL, parts ? finish_compiled : NULL};
}

bt_status bti_launch_blocks(const bti_kernel *kernel, const bti_blocks *blocks, const bti_box *box) {
    bti_runner runner = bti_blocks_runner(kernel, blocks);
    return bti_launch(&runner, box);
}

bt_status bti_launch_compiled(const bti_kernel *kernel, const bti_code *code, const bti_box *box) {
    bti_code in_pairs = *code;
    in_pairs.half = code->compiled->run_pair ? bti_kernel_half(kernel, box) : 0;
    if (code->streams && in_pairs.half % 64) in_pairs.half = 0;
    bti_runner runner = bti_compiled_runner(kernel, &in_pairs);
    if (!in_pairs.half) return bti_launch(&runner, box);
    bti_box first_half = *box;
    first_half.extent[0] = in_pairs.half;
    return bti_launch(&runner, &first_half);
}
