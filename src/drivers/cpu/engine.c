/* The engine of drivers whose devices are cores of this process. engine.h describes it. */
#include "drivers/cpu/engine.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "drivers/cpu/attention/attention.h"
#include "drivers/cpu/check.h"
#include "drivers/cpu/conv/conv.h"
#include "drivers/cpu/gather.h"
#include "drivers/cpu/launch.h"
#include "drivers/cpu/product/product.h"
#include "drivers/cpu/sort/order.h"
#include "drivers/cpu/target.h"
#include "ir/attention.h"
#include "ir/conv.h"
#include "launch/narrow.h"
#include "launch/turned.h"
#include "reference/interp.h"

/* --- primitives that run whole ------------------------------------------------------------------------------------ */

bt_status bti_cpu_launch(void *device, void *program, const bti_work *work) {
    (void)device, (void)program;
    if (bti_flag_choice(BTI_FLAG_kernels) == BTI_KERNELS_INTERPRETER) return bti_interpret(work);
    if (work->op == BTI_OP_matmul) return bti_product(work);
    if (bti_op_is_conv(work->op)) return bti_cpu_conv(work);
    if (bti_op_is_attention(work->op)) return bti_cpu_attention(work);
    switch (bti_op_info(work->op)->class) {
    case BTI_ORDER: return bti_cpu_order(work);
    case BTI_SCAN:
    case BTI_GATHER:
    case BTI_MOVEMENT:
    case BTI_EFFECT: return bti_cpu_gather(work);
    default: return bti_interpret(work);
    }
}

/* --- fused kernels: loading --------------------------------------------------------------------------------------- */

#define COMPILE_NS 2e6 /* the approximate time to compile a kernel */

/* Compiled code of one of the kernel's texts. */
typedef struct code_variant {
    atomic_int state;
    bti_compiled *compiled; /* when READY */
} code_variant;
enum { UNTRIED, WANTED, READY, FAILED };

typedef struct fused_kernel {
    bti_kernel kernel;
    int made; /* of a product's epilogue: the operand that is the product */
    bti_target target;
    const void *const *functions;
    bti_blocks *blocks;
    atomic_int_fast64_t blocks_ns; /* the estimated time of all runs in blocks so far */
    code_variant variants[BTI_CPU_TEXTS];
    _Atomic(bti_check *) check; /* for the flag check_kernels; NULL until the first check */
    atomic_uint check_variants; /* those of the last launch */
} fused_kernel;

static bt_status load_kernel(const bti_program_source *source, void **program) {
    fused_kernel *loaded = bti_calloc(1, sizeof *loaded);
    if (!loaded) return bti_no_memory();
    loaded->kernel = *source->kernel;
    loaded->made = source->made;
    loaded->target = bti_cpu_target();
    loaded->functions = bti_functions_of(loaded->target);
    bt_status status = bti_blocks_make(source->kernel, loaded->target, &loaded->blocks);
    if (status != BT_OK) bti_free(loaded);
    if (status == BT_OK) *program = loaded;
    return status;
}

static char primitive; /* the program of all of them */

static bool is_kernel(const void *program) { return program != &primitive; }

bt_status bti_cpu_program_load(void *device, const bti_program_source *source, void **program) {
    (void)device;
    *program = &primitive;
    return source->kernel ? load_kernel(source, program) : BT_OK;
}

void bti_cpu_program_free(void *device, const bti_program_source *source, void *program) {
    (void)device;
    if (!source->kernel) return;
    fused_kernel *loaded = program;
    bti_check_free(loaded->check);
    for (int v = 0; v < BTI_CPU_TEXTS; v++) bti_compiled_free(loaded->variants[v].compiled);
    bti_blocks_free(loaded->blocks);
    bti_free(loaded);
}

const bti_kernel *bti_cpu_program_kernel(const void *program) { return &((const fused_kernel *)program)->kernel; }

int bti_cpu_program_made(const void *program) { return ((const fused_kernel *)program)->made; }

/* --- compiling ---------------------------------------------------------------------------------------------------- */

static bool is_compiled(code_variant *v) { return atomic_load_explicit(&v->state, memory_order_acquire) == READY; }

/* Whether the runs in blocks, with this one, took as long as compiling would. */
static bool compiling_pays(fused_kernel *loaded, const bti_box *box) {
    double ns = bti_blocks_cost(loaded->blocks, bti_launch_points(&loaded->kernel, box));
    int64_t more = (int64_t)(ns < COMPILE_NS ? ns : COMPILE_NS);
    return (double)(atomic_fetch_add_explicit(&loaded->blocks_ns, more, memory_order_relaxed) + more) >= COMPILE_NS;
}

static code_variant *variant_of(fused_kernel *loaded, const bti_box *box) {
    bti_cpu_text text = bti_launch_turns(&loaded->kernel, box)       ? BTI_TEXT_TURNED
                        : bti_launch_is_narrow(&loaded->kernel, box) ? BTI_TEXT_NARROW
                        : bti_launch_streams(&loaded->kernel, box)   ? BTI_TEXT_STREAM
                                                                     : BTI_TEXT_PLAIN;
    return &loaded->variants[text];
}

static _Thread_local code_variant
    *wanted_here; /* by this thread's last launch; several threads may launch one kernel */

/* One launch wants the text; until it is given blocks run. */
static bool wants_compiled(fused_kernel *loaded, code_variant *v, const bti_box *box) {
    int untried = UNTRIED, kernels;
    if (atomic_load_explicit(&v->state, memory_order_relaxed) != UNTRIED) return false;
    kernels = bti_flag_choice(BTI_FLAG_kernels);
    if (kernels != BTI_KERNELS_COMPILED && (kernels != BTI_KERNELS_AUTO || !compiling_pays(loaded, box))) return false;
    if (!atomic_compare_exchange_strong(&v->state, &untried, WANTED)) return false;
    wanted_here = v;
    return true;
}

/* A kernel that cannot be compiled is not tried again. */
static void compile_variant(fused_kernel *loaded, code_variant *v, const bti_str *text) {
    bool before = bti_errors_quiet(true);
    bt_status status = bti_compiled_get(&loaded->kernel, text, loaded->target, &v->compiled);
    bti_errors_quiet(before);
    atomic_store_explicit(&v->state, status == BT_OK && v->compiled->run ? READY : FAILED, memory_order_release);
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

enum { FOR_ENGINE, FOR_CHECK };

/* The other variants are made once and kept; if several threads make them, those of one thread. */
static bt_status find_check(fused_kernel *loaded, bti_check **check) {
    bti_check *before = NULL;
    *check = atomic_load_explicit(&loaded->check, memory_order_acquire);
    if (*check) return BT_OK;
    BTI_TRY(bti_check_make(&loaded->kernel, check));
    if (!atomic_compare_exchange_strong(&loaded->check, &before, *check)) {
        bti_check_free(*check);
        *check = before;
    }
    return BT_OK;
}

static unsigned variants_to_check(const fused_kernel *loaded, const bti_box *box) {
    bool streams = bti_launch_streams(&loaded->kernel, box), turns = bti_box_turns(&loaded->kernel, box);
    return 1u << BTI_TEXT_PLAIN | (unsigned)streams << BTI_TEXT_STREAM | (unsigned)turns << BTI_TEXT_TURNED |
           (unsigned)bti_box_is_narrow(&loaded->kernel, box) << BTI_TEXT_NARROW;
}

static bool lacks_text(fused_kernel *loaded, code_variant *v, const bti_box *box) {
    bti_check *check;
    bti_target target;
    bti_cpu_text variant;
    if (bti_flag_bool(BTI_FLAG_check_kernels) && find_check(loaded, &check) == BT_OK) {
        unsigned variants = variants_to_check(loaded, box);
        atomic_store_explicit(&loaded->check_variants, variants, memory_order_relaxed);
        if (bti_check_wants(check, variants, &target, &variant)) return true;
    }
    return wants_compiled(loaded, v, box);
}

bool bti_cpu_text_lacked(void *device, void *program, bti_text_wanted *wanted) {
    (void)device;
    fused_kernel *loaded = program;
    if (!is_kernel(program)) return false;
    bti_check *check = atomic_load_explicit(&loaded->check, memory_order_acquire);
    *wanted = (bti_text_wanted){.kernel = &loaded->kernel, .target = loaded->target, .number = FOR_CHECK};
    bti_cpu_text variant;
    if (check && bti_flag_bool(BTI_FLAG_check_kernels) &&
        bti_check_wants(check, loaded->check_variants, &wanted->target, &variant))
        return wanted->variant = (int)variant, true;
    wanted->number = FOR_ENGINE;
    wanted->target = loaded->target;
    for (int v = 0; v < BTI_CPU_TEXTS; v++)
        if (wanted_here == &loaded->variants[v]) return wanted->variant = v, true;
    return false;
}

bt_status bti_cpu_text_give(void *device, void *program, const bti_text_wanted *wanted, const bti_str *text) {
    (void)device;
    fused_kernel *loaded = program;
    if (wanted->number == FOR_CHECK)
        return bti_check_give(loaded->check, wanted->target, (bti_cpu_text)wanted->variant, text);
    compile_variant(loaded, &loaded->variants[wanted->variant], text);
    wanted_here = NULL;
    return BT_OK;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static bt_status check_variants(fused_kernel *loaded, const bti_box *box) {
    bti_check *check;
    BTI_TRY(find_check(loaded, &check));
    return bti_check_run(check, box, variants_to_check(loaded, box));
}

static bt_status run_kernel(fused_kernel *loaded, code_variant *v, const bti_box *box) {
    if (bti_flag_bool(BTI_FLAG_check_kernels)) BTI_TRY(check_variants(loaded, box));
    int kernels = bti_flag_choice(BTI_FLAG_kernels);
    if (is_compiled(v) && (kernels == BTI_KERNELS_AUTO || kernels == BTI_KERNELS_COMPILED)) {
        bti_code code = {v->compiled, loaded->functions, (bti_cpu_text)(v - loaded->variants)};
        return bti_launch_compiled(&loaded->kernel, &code, box);
    }
    return bti_launch_blocks(&loaded->kernel, loaded->blocks, box);
}

bt_status bti_cpu_launch_kernel(void *device, void *program, const bti_box *box) {
    (void)device;
    fused_kernel *loaded = program;
    code_variant *v = variant_of(loaded, box);
    return lacks_text(loaded, v, box) ? BT_FAILED_PRECONDITION : run_kernel(loaded, v, box);
}

bool bti_cpu_settled(void *program, const bti_box *box, bti_settled *settled) {
    fused_kernel *loaded = program;
    int kernels = bti_flag_choice(BTI_FLAG_kernels);
    if (bti_flag_bool(BTI_FLAG_check_kernels) || !bti_launch_is_whole(&loaded->kernel, box)) return false;
    *settled = (bti_settled){.functions = loaded->functions, .blocks = loaded->blocks};
    if (kernels != BTI_KERNELS_AUTO && kernels != BTI_KERNELS_COMPILED) return true;
    code_variant *plain = &loaded->variants[BTI_TEXT_PLAIN];
    int state = atomic_load_explicit(&plain->state, memory_order_acquire);
    if (state == READY) settled->run = plain->compiled->run;
    return state == READY || state == FAILED;
}

bool bti_cpu_lacks_text(void *program, const bti_box *box) {
    return lacks_text(program, variant_of(program, box), box);
}

bt_status bti_cpu_run_kernel(void *program, const bti_box *box) {
    return run_kernel(program, variant_of(program, box), box);
}
