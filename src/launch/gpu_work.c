/* Primitives that run whole. Most become kernels of one instruction, one per layout; pad and concat are copies of parts; the rest
 * have texts of their own (gpu_text.c). */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lru.h"
#include "launch/gpu_engine.h"
#include "reference/operand.h"

/* The kernel of one layout of the operands. */
typedef struct layout_kernel {
    bti_lru_entry entry; /* first */
    bti_gpu *gpu;
    bti_kernel kernel;
    bti_gpu_kernel *loaded;
} layout_kernel;

#define MOST_KERNELS 16 /* of one primitive; the least recently used one is unloaded */

/* One of the primitive's own texts. */
typedef struct own_text {
    int variant;
    bti_gpu_module module;
    struct own_text *next;
} own_text;

struct bti_gpu_work {
    char name[64];   /* for messages and profilers */
    bti_lru kernels; /* used by the thread that runs the device's queue */
    own_text *texts; /* that were launched */
};

static bool is_layout_kernel(const bti_lru_entry *entry, const void *kernel) {
    return bti_kernel_equal(&((const layout_kernel *)entry)->kernel, kernel);
}

static void free_layout_kernel(bti_lru_entry *entry) {
    layout_kernel *old = (layout_kernel *)entry;
    bti_gpu_kernel_free(old->gpu, old->loaded);
    bti_free(old);
}

bt_status bti_gpu_work_load(const bti_program_source *source, bti_gpu_work **loaded) {
    bti_gpu_work *new = bti_calloc(1, sizeof *new);
    char of_kernel[48] = "";
    if (!new) return bti_no_memory();
    if (source->kernel) bti_kernel_name(of_kernel, sizeof of_kernel, source->kernel);
    snprintf(new->name, sizeof new->name, "%s%s%s", bti_op_info(source->op)->name, source->kernel ? "+" : "",
             of_kernel);
    new->kernels = (bti_lru){.equal = is_layout_kernel, .free = free_layout_kernel, .most_count = MOST_KERNELS};
    *loaded = new;
    return BT_OK;
}

void bti_gpu_work_free(bti_gpu *gpu, bti_gpu_work *work) {
    bti_lru_clear(&work->kernels);
    for (own_text *next; work->texts; work->texts = next) {
        next = work->texts->next;
        bti_gpu_module_free(gpu, &work->texts->module);
        bti_free(work->texts);
    }
    bti_free(work);
}

/* --- kernels of one instruction ----------------------------------------------------------------------------------- */

/* *found is yours to release. */
static bt_status find_layout_kernel(bti_gpu *gpu, bti_gpu_work *work, const bti_kernel *kernel, layout_kernel **found) {
    uint64_t hash = bti_kernel_hash(kernel);
    *found = bti_lru_find(&work->kernels, hash, kernel);
    if (*found) return BT_OK;
    layout_kernel *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    bti_lru_entry_init(&new->entry);
    new->gpu = gpu;
    new->kernel = *kernel;
    new->loaded = bti_gpu_kernel_new(kernel);
    if (!new->loaded) return bti_free(new), bti_no_memory();
    bti_lru_add(&work->kernels, &new->entry, hash, 0);
    *found = new;
    return BT_OK;
}

static bt_status launch_as_kernel(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked, bool *done) {
    bti_kernel kernel;
    layout_kernel *found;
    bti_box box;
    uint64_t scalar;
    *done = !asked->other_count && !bti_operand_count(&asked->output);
    if (*done || !bti_kernel_of_work(asked, &kernel, &box, &scalar)) return BT_OK;
    BTI_TRY(find_layout_kernel(gpu, work, &kernel, &found));
    *done = true;
    bt_status status = bti_gpu_kernel_launch(gpu, found->loaded, &box);
    bti_lru_release(&work->kernels, &found->entry);
    return status;
}

bt_status bti_gpu_work_copy(bti_gpu *gpu, bti_gpu_work *work, const bti_operand *from, const bti_operand *to) {
    bool done;
    bti_work copy = {.op = BTI_OP_copy, .input_count = 1, .inputs = from, .output = *to};
    BTI_TRY(launch_as_kernel(gpu, work, &copy, &done));
    return done ? BT_OK : bti_fail(BT_INTERNAL, "%s: a copy between operands of different shapes", gpu->name);
}

/* --- copies of parts ---------------------------------------------------------------------------------------------- */

static bt_status launch_pad(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked) {
    const bti_operand *x = asked->inputs;
    bti_operand inner = asked->output, value = asked->output;
    value.address = x[1].address;
    memset(value.stride, 0, sizeof value.stride);
    BTI_TRY(bti_gpu_work_copy(gpu, work, &value, &asked->output));
    for (int axis = 0; axis < inner.rank; axis++)
        inner = bti_operand_part(&inner, axis, asked->attr->pad.before[axis], x->shape[axis]);
    return bti_gpu_work_copy(gpu, work, x, &inner);
}

static bt_status launch_concat(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked) {
    int axis = asked->attr->axis.axis;
    int64_t from = 0;
    for (int i = 0; i < asked->input_count; i++) {
        const bti_operand *x = &asked->inputs[i];
        bti_operand to = bti_operand_part(&asked->output, axis, from, x->shape[axis]);
        BTI_TRY(bti_gpu_work_copy(gpu, work, x, &to));
        from += x->shape[axis];
    }
    return BT_OK;
}

bt_status bti_gpu_work_as_kernels(bti_gpu *gpu, bti_gpu_work *work, const bti_work *asked, bool *done) {
    *done = true;
    if (asked->op == BTI_OP_pad) return bti_operand_count(&asked->output) ? launch_pad(gpu, work, asked) : BT_OK;
    if (asked->op == BTI_OP_concat) return launch_concat(gpu, work, asked);
    return launch_as_kernel(gpu, work, asked, done);
}

/* --- the primitive's own texts ------------------------------------------------------------------------------------ */

bt_status bti_gpu_work_module(bti_gpu *gpu, bti_gpu_work *work, int variant, bti_gpu_module **module) {
    own_text *own = work->texts;
    const bti_str *text;
    while (own && own->variant != variant) own = own->next;
    if (!own) {
        if (!(own = bti_calloc(1, sizeof *own))) return bti_no_memory();
        own->variant = variant;
        own->next = work->texts;
        work->texts = own;
    }
    *module = &own->module;
    if (own->module.handle) return BT_OK;
    BTI_TRY(bti_gpu_text_of(gpu, NULL, variant, &text));
    return bti_gpu_module_build(gpu, work->name, text, &own->module);
}
