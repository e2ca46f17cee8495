#include "launch/gpu.h"

#include "base/lock.h"
#include "base/alloc.h"
#include "launch/gpu_engine.h"

typedef struct gpu_program {
    bti_gpu_kernel *kernel; /* one of the three, of a product with its epilogue the first two */
    bti_gpu_work *work;
    bti_gpu_custom *custom;
    bti_gpu_fft *fft;       /* and `work`, for its copies */
    bti_gpu_factor *factor; /* likewise */
    int made;               /* of the epilogue */
    bti_gpu_texts texts;    /* under the device's lock */
} gpu_program;

enum { OWN_TEXT, LAUNCH_TEXT };

static const char *unsupported_dtype(const bti_gpu *gpu, const bti_program_source *source) {
    bool wide = false;
    if (gpu->target != BTI_OPENCL_C_F32) return NULL;
    for (int i = 0; source->kernel && i < source->kernel->instr_count; i++)
        wide = wide || source->kernel->instrs[i].dtype == BT_F64;
    for (int i = 0; source->custom && i < BTI_CUSTOM_OPERANDS; i++) wide = wide || source->custom->dtypes[i] == BT_F64;
    for (int i = 0; i < source->dtype_count; i++) wide = wide || source->dtypes[i] == BT_F64;
    return wide ? "float64" : NULL;
}

void bti_gpu_unload(void *device, const bti_program_source *source, void *loaded) {
    (void)source;
    bti_gpu *gpu = device;
    gpu_program *old = loaded;
    if (old->kernel) bti_gpu_kernel_free(gpu, old->kernel);
    if (old->work) bti_gpu_work_free(gpu, old->work);
    if (old->custom) bti_gpu_custom_free(gpu, old->custom);
    if (old->fft) bti_gpu_fft_free(gpu, old->fft);
    if (old->factor) bti_gpu_factor_free(gpu, old->factor);
    bti_gpu_text_drop(&old->texts);
    bti_free(old);
}

bt_status bti_gpu_load(void *device, const bti_program_source *source, void **loaded) {
    bti_gpu *gpu = device;
    const char *missing = unsupported_dtype(gpu, source);
    if (missing) return bti_fail(BT_UNIMPLEMENTED, "%s has no %s; use float32 there, or the CPU", gpu->name, missing);
    gpu_program *new = bti_calloc(1, sizeof *new);
    if (!new) return bti_no_memory();
    bt_status status = BT_OK;
    new->made = source->made;
    if (source->kernel && !(new->kernel = bti_gpu_kernel_new(source->kernel))) status = bti_no_memory();
    if (source->custom && !(new->custom = bti_gpu_custom_new(source->custom))) status = bti_no_memory();
    if (status == BT_OK && !source->custom && (!source->kernel || bti_source_is_product(source)))
        status = bti_gpu_work_load(source, &new->work);
    if (status == BT_OK && source->fft.n) status = bti_gpu_fft_new(gpu, &source->fft, &new->fft);
    if (status == BT_OK && source->factor.of.n) status = bti_gpu_factor_new(gpu, &source->factor, &new->factor);
    if (status == BT_OK)
        *loaded = new;
    else
        bti_gpu_unload(device, source, new);
    return status;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

/* The text that a launch of a kernel of the program's needs, or a launch of such boxes. */
static bool lacks_own_text(bti_gpu *gpu, gpu_program *program, const bti_box *box, int count, bti_text_wanted *wanted) {
    bti_entry entry = BTI_ENTRY_RUN;
    bool of_kernel = count && program->kernel && !program->work &&
                     bti_gpu_kernel_lacks_text(gpu, program->kernel, box, count, &entry);
    *wanted = (bti_text_wanted){.target = gpu->target, .number = OWN_TEXT, .variant = (int)entry};
    if (of_kernel) wanted->kernel = bti_gpu_kernel_of(program->kernel);
    return of_kernel || (program->custom && bti_gpu_custom_lacks_text(program->custom));
}

bool bti_gpu_text_wanted(void *device, void *loaded, const bti_box *box, int count, bti_text_wanted *wanted) {
    bti_gpu *gpu = device;
    gpu_program *program = loaded;
    bti_lock_take(&gpu->lock);
    bool lacks = lacks_own_text(gpu, program, box, count, wanted);
    bti_lock_give(&gpu->lock);
    return lacks;
}

bool bti_gpu_text_lacked(void *device, void *loaded, bti_text_wanted *wanted) {
    bti_gpu *gpu = device;
    gpu_program *program = loaded;
    bti_lock_take(&gpu->lock);
    const bti_gpu_texts *texts = &program->texts;
    bool own = lacks_own_text(gpu, program, NULL, 0, wanted), lacks = own || texts->wanting;
    if (!own)
        *wanted = (bti_text_wanted){.kernel = texts->of_kernel ? &texts->kernel : NULL,
                                    .target = gpu->target,
                                    .number = LAUNCH_TEXT,
                                    .variant = texts->variant};
    bti_lock_give(&gpu->lock);
    return lacks;
}

bt_status bti_gpu_text_give(void *device, void *loaded, const bti_text_wanted *wanted, const bti_str *text) {
    bti_gpu *gpu = device;
    gpu_program *program = loaded;
    if (wanted->number == OWN_TEXT)
        return program->kernel ? bti_gpu_kernel_give(gpu, program->kernel, (bti_entry)wanted->variant, text)
                               : bti_gpu_custom_give(gpu, program->custom, text);
    bti_lock_take(&gpu->lock);
    bti_gpu_text_keep(&program->texts, text);
    bti_lock_give(&gpu->lock);
    return BT_OK;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

static void begin_launch(bti_gpu *gpu, gpu_program *program) {
    bti_lock_take(&gpu->lock);
    gpu->texts = &program->texts;
    program->texts.wanting = false;
}

static bt_status end_launch(bti_gpu *gpu, gpu_program *program, bt_status status) {
    if (!program->texts.wanting) bti_gpu_text_drop(&program->texts);
    gpu->texts = NULL;
    bti_lock_give(&gpu->lock);
    return status;
}

bt_status bti_gpu_launch_work(void *device, void *loaded, const bti_work *work) {
    bti_gpu *gpu = device;
    gpu_program *program = loaded;
    bool done;
    begin_launch(gpu, program);
    bt_status status = bti_gpu_work_as_kernels(gpu, program->work, work, &done);
    if (status == BT_OK && !done) status = bti_gpu_text_launch(gpu, program->work, work);
    return end_launch(gpu, program, status);
}

bt_status bti_gpu_launch_kernel(void *device, void *loaded, const bti_box *box) {
    begin_launch(device, loaded);
    return end_launch(device, loaded, bti_gpu_kernel_launch(device, ((gpu_program *)loaded)->kernel, box));
}

bt_status bti_gpu_launch_boxes(void *device, void *loaded, const bti_box *boxes, int count) {
    begin_launch(device, loaded);
    return end_launch(device, loaded,
                      bti_gpu_kernel_launch_boxes(device, ((gpu_program *)loaded)->kernel, boxes, count));
}

bt_status bti_gpu_launch_product(void *device, void *loaded, const bti_work *product, const bti_box *box) {
    gpu_program *program = loaded;
    begin_launch(device, program);
    return end_launch(device, program,
                      bti_gpu_launch_epilogue(device, program->work, program->kernel, program->made, product, box));
}

bt_status bti_gpu_launch_custom(void *device, void *loaded, const bti_custom_launch *launch) {
    begin_launch(device, loaded);
    return end_launch(device, loaded, bti_gpu_custom_launch(device, ((gpu_program *)loaded)->custom, launch));
}

bt_status bti_gpu_launch_library(void *device, void *loaded, const uint64_t *addresses) {
    const gpu_program *program = loaded;
    begin_launch(device, loaded);
    return end_launch(device, loaded,
                      program->fft ? bti_gpu_fft_launch(device, program->fft, program->work, addresses[0], addresses[1])
                                   : bti_gpu_factor_launch(device, program->factor, program->work, addresses));
}
