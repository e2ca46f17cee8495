#include "drivers/cpu/engine.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "drivers/cpu/check.h"
#include "drivers/cpu/code.h"
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
    _Atomic(bti_check *) check; /* of the flag check_kernels; NULL until it is wanted */
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
    bti_check_free(loaded->check);
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

/* The kernel's other ways are made once and kept: one thread's, should several make them. */
static bt_status check(bti_engine_kernel *loaded, const bti_box *box) {
    bti_check *made = atomic_load_explicit(&loaded->check, memory_order_acquire), *before = NULL;
    if (!made) {
        BTI_TRY(bti_check_make(&loaded->kernel, loaded->render, &made));
        if (!atomic_compare_exchange_strong(&loaded->check, &before, made)) {
            bti_check_free(made);
            made = before;
        }
    }
    return bti_check_run(made, box, bti_launch_streams(&loaded->kernel, box));
}

bt_status bti_engine_run(bti_engine_kernel *loaded, const bti_box *box) {
    if (bti_flag_bool(BTI_FLAG_check_kernels)) BTI_TRY(check(loaded, box));
    int kernels = bti_flag_choice(BTI_FLAG_kernels);
    if (loaded->render && (kernels == AUTO || kernels == COMPILED)) {
        variant *v = bti_launch_streams(&loaded->kernel, box) ? &loaded->streaming : &loaded->plain;
        if (atomic_load_explicit(&v->state, memory_order_relaxed) == UNTRIED &&
            (kernels == COMPILED || pays(loaded, box)))
            compile(loaded, v);
        if (ready(v)) {
            bti_code code = {v->compiled, loaded->functions, v == &loaded->streaming, 0};
            return bti_launch_compiled(&loaded->kernel, &code, box);
        }
    }
    return bti_launch_blocks(&loaded->kernel, loaded->blocks, box);
}
