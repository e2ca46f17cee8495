#include "drivers/cpu/engine.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/flags.h"
#include "drivers/cpu/blocks.h"
#include "drivers/cpu/compiled.h"
#include "drivers/cpu/functions.h"
#include "drivers/cpu/launch.h"
#include "drivers/cpu/target.h"
#include "drivers/cpu/work.h"

enum { AUTO, COMPILED, BLOCKS, INTERPRETER }; /* the flag `kernels` */

#define COMPILE_NS 2e6 /* about what compiling a kernel takes */

/* Compiled code: of the kernel, or of the one whose outputs go around the cache. */
typedef struct variant {
    atomic_int state;
    bti_compiled *compiled; /* when READY */
} variant;
enum { UNTRIED, COMPILING, READY, FAILED };

struct bti_engine_kernel {
    bti_kernel kernel;
    bti_render_function *render;
    bti_target target;
    const void *const *functions;
    bti_blocks *blocks;
    atomic_int_fast64_t blocks_ns; /* that runs in blocks took, as they are estimated */
    variant plain, streaming;
};

bt_status bti_engine_work(const bti_work *work) { return bti_cpu_work(work); }

bt_status bti_engine_load(const bti_kernel *kernel, bti_render_function *render, bti_engine_kernel **made) {
    bti_engine_kernel *loaded = bti_calloc(1, sizeof *loaded);
    if (!loaded) return bti_fail(BT_RESOURCE_EXHAUSTED, "no memory for a kernel");
    loaded->kernel = *kernel;
    loaded->render = render;
    loaded->target = bti_cpu_target();
    loaded->functions = bti_functions_of(loaded->target);
    bt_status status = bti_blocks_make(kernel, loaded->target, &loaded->blocks);
    if (status != BT_OK) bti_free(loaded);
    if (status == BT_OK) *made = loaded;
    return status;
}

void bti_engine_free(bti_engine_kernel *loaded) {
    if (!loaded) return;
    bti_compiled_free(loaded->plain.compiled);
    bti_compiled_free(loaded->streaming.compiled);
    bti_blocks_free(loaded->blocks);
    bti_free(loaded);
}

const bti_kernel *bti_engine_kernel_of(const bti_engine_kernel *loaded) { return &loaded->kernel; }

/* --- compiling ---------------------------------------------------------------------------------------------------- */

/* By one thread; the others go on with blocks. What cannot be compiled is not tried again. */
static void compile(bti_engine_kernel *loaded, variant *v) {
    int untried = UNTRIED;
    if (!atomic_compare_exchange_strong(&v->state, &untried, COMPILING)) return;
    bti_kernel kernel = loaded->kernel;
    kernel.stream = v == &loaded->streaming;
    bool before = bti_errors_quiet(true);
    bt_status status = bti_compiled_get(&kernel, loaded->render, loaded->target, &v->compiled);
    bti_errors_quiet(before);
    atomic_store_explicit(&v->state, status == BT_OK && v->compiled->run ? READY : FAILED, memory_order_release);
}

static bool ready(variant *v) { return atomic_load_explicit(&v->state, memory_order_acquire) == READY; }

/* Whether compiling pays by now, with this run. */
static bool pays(bti_engine_kernel *loaded, const bti_box *box) {
    double ns = bti_blocks_cost(loaded->blocks, bti_launch_points(&loaded->kernel, box));
    int64_t more = (int64_t)(ns < COMPILE_NS ? ns : COMPILE_NS);
    return (double)(atomic_fetch_add_explicit(&loaded->blocks_ns, more, memory_order_relaxed) + more) >= COMPILE_NS;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

typedef struct compiled_code {
    const bti_compiled *compiled;
    const void *const *functions;
    bool streams;
    int64_t half; /* of a box run in pairs; 0 */
} compiled_code;

static void run_compiled(const void *code, const bti_box *box) {
    const compiled_code *c = code;
    if (c->half)
        c->compiled->run_pair(box->extent, box->scalars, box->address, *box->stride, c->functions, c->half);
    else
        c->compiled->run(box->extent, box->scalars, box->address, *box->stride, c->functions);
#if defined(__x86_64__)
    if (c->streams) __builtin_ia32_sfence(); /* before another thread is told that it is done */
#endif
}
static void part_compiled(const void *code, const bti_box *box, uint64_t *parts) {
    const compiled_code *c = code;
    c->compiled->part(box->extent, box->scalars, box->address, *box->stride, c->functions, parts);
}
static void finish_compiled(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    const compiled_code *c = code;
    c->compiled->finish(box->extent, box->scalars, box->address, *box->stride, c->functions, parts, count);
}

static void run_blocks(const void *code, const bti_box *box) { bti_blocks_run(code, box); }
static void part_blocks(const void *code, const bti_box *box, uint64_t *parts) { bti_blocks_part(code, box, parts); }
static void finish_blocks(const void *code, const bti_box *box, const uint64_t *parts, int64_t count) {
    bti_blocks_finish(code, box, parts, count);
}

static bt_status launch_compiled(bti_engine_kernel *loaded, const variant *v, const bti_box *box) {
    const bti_compiled *compiled = v->compiled;
    compiled_code code = {compiled, loaded->functions, v == &loaded->streaming, 0};
    bool parts = compiled->part && compiled->finish;
    bti_runner runner = {&loaded->kernel, &code, run_compiled, parts ? part_compiled : NULL,
                         parts ? finish_compiled : NULL};
    if (!compiled->run_pair || !(code.half = bti_kernel_half(&loaded->kernel, box)) ||
        (code.streams && code.half % 64)) {
        code.half = 0;
        return bti_launch(&runner, box);
    }
    bti_box first_half = *box;
    first_half.extent[0] = code.half;
    return bti_launch(&runner, &first_half);
}

bt_status bti_engine_run(bti_engine_kernel *loaded, const bti_box *box) {
    int kernels = bti_flag_choice(BTI_FLAG_kernels);
    if (loaded->render && (kernels == AUTO || kernels == COMPILED)) {
        variant *v = bti_launch_streams(&loaded->kernel, box) ? &loaded->streaming : &loaded->plain;
        if (atomic_load_explicit(&v->state, memory_order_relaxed) == UNTRIED &&
            (kernels == COMPILED || pays(loaded, box)))
            compile(loaded, v);
        if (ready(v)) return launch_compiled(loaded, v, box);
    }
    bti_runner runner = {&loaded->kernel, loaded->blocks, run_blocks, part_blocks, finish_blocks};
    return bti_launch(&runner, box);
}
