/* Fourier transforms by cuFFT. A plan is made for lines of one shape; the program that runs it holds it, and so do recordings, since cuFFT's tables lie in the plan. Its
 * workspace is scratch memory, which it gets at each call. */
#include "base/alloc.h"
#include "drivers/cuda/device.h"

typedef struct planned_fft {
    bti_cuda_held held; /* first */
    cufftHandle plan;
    int direction;
    size_t workspace_bytes;
} planned_fft;

/* --- plans -------------------------------------------------------------------------------------------------------- */

static int plan_type(const bti_fft_lines *lines) {
    bool wide = lines->part == BT_F64;
    switch (lines->kind) {
    case BTI_FFT_HALF: return wide ? CUFFT_D2Z : CUFFT_R2C;
    case BTI_FFT_WHOLE: return wide ? CUFFT_Z2D : CUFFT_C2R;
    default: return wide ? CUFFT_Z2Z : CUFFT_C2C;
    }
}

/* That of real ones counts too, though cuFFT's manual says that it does not: cufftXtExec of 12.0 answers "invalid value" to an R2C plan and CUFFT_INVERSE. */
static int direction_of(bti_fft_kind kind) {
    return kind == BTI_FFT_FORWARD || kind == BTI_FFT_HALF ? CUFFT_FORWARD : CUFFT_INVERSE;
}

/* With the context current. The name of the call that failed is in *call. */
static cufftResult make_fft_plan(const bti_fft_lines *lines, planned_fft *fft, const char **call) {
    long long n = lines->n, step = lines->inner, count = lines->outer * lines->inner;
    long long read = bti_fft_points_read(lines), written = bti_fft_points_written(lines);
    bool follow = lines->inner == 1; /* one line after the other */
    *call = "cufftCreate";
    cufftResult result = bti_cufft.cufftCreate(&fft->plan);
    if (result) return result;
    *call = "cufftSetAutoAllocation";
    result = bti_cufft.cufftSetAutoAllocation(fft->plan, 0);
    if (!result) {
        *call = "cufftMakePlanMany64";
        result = bti_cufft.cufftMakePlanMany64(fft->plan, 1, &n, &read, step, follow ? read : 1, &written, step,
                                               follow ? written : 1, plan_type(lines), count, &fft->workspace_bytes);
    }
    if (result) (void)bti_cufft.cufftDestroy(fft->plan);
    return result;
}

static bt_status fail_cufft(const bti_cuda_device *device, const char *call, cufftResult result, bt_status otherwise) {
    return bti_fail(result == CUFFT_ALLOC_FAILED ? BT_RESOURCE_EXHAUSTED : otherwise, "%s: %s: cuFFT's result is %d",
                    device->name, call, result);
}

static void free_fft(bti_cuda_device *device, bti_cuda_retired *retired) {
    planned_fft *fft = (planned_fft *)retired;
    if (!atomic_load(&device->lost)) (void)bti_cufft.cufftDestroy(fft->plan);
    bti_free(fft);
}

bt_status bti_cuda_fft_new(void *opened, const bti_fft_lines *lines, void **made) {
    bti_cuda_device *device = opened;
    const char *call;
    if (!bti_cuda_has(BTI_CUDA_CUFFT)) return bti_fail(BT_UNIMPLEMENTED, "%s: there is no cuFFT", device->name);
    planned_fft *fft = bti_calloc(1, sizeof *fft);
    if (!fft) return bti_no_memory();
    fft->held.retired.free = free_fft;
    fft->held.holders = 1;
    fft->direction = direction_of(lines->kind);
    bt_status status = bti_cuda_enter(device);
    if (status == BT_OK) {
        cufftResult result = make_fft_plan(lines, fft, &call);
        status = bti_cuda_leave(result ? fail_cufft(device, call, result, BT_UNIMPLEMENTED) : BT_OK);
    }
    if (status == BT_OK)
        *made = fft;
    else
        bti_free(fft);
    return status;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

#define FFT_TRY(device, function, ...)                                                   \
    do {                                                                                 \
        cufftResult fft_result_ = bti_cufft.function(__VA_ARGS__);                       \
        if (fft_result_) return fail_cufft(device, #function, fft_result_, BT_INTERNAL); \
    } while (0)

/* A stream that is recorded is destroyed after the recording; the plan does not keep it. */
static bt_status run_fft(bti_cuda_device *device, const planned_fft *fft, uint64_t from, uint64_t to) {
    CUstream stream = bti_cuda_stream(device);
    uint64_t workspace;
    if (fft->workspace_bytes) {
        BTI_TRY(bti_gpu_scratch(&device->gpu, BTI_GPU_WORKSPACE, fft->workspace_bytes, &workspace));
        FFT_TRY(device, cufftSetWorkArea, fft->plan, (void *)(uintptr_t)workspace);
    }
    FFT_TRY(device, cufftSetStream, fft->plan, stream);
    FFT_TRY(device, cufftXtExec, fft->plan, (void *)(uintptr_t)from, (void *)(uintptr_t)to, fft->direction);
    if (stream != device->compute) FFT_TRY(device, cufftSetStream, fft->plan, device->compute);
    return BT_OK;
}

bt_status bti_cuda_fft(void *opened, void *transform, uint64_t from, uint64_t to) {
    bti_cuda_device *device = opened;
    planned_fft *fft = transform;
    if (bti_cuda_cannot_update(device)) return BT_OK;
    BTI_TRY(bti_cuda_enter(device));
    bti_cuda_capture_held(device, &fft->held);
    return bti_cuda_leave(run_fft(device, fft, from, to));
}

void bti_cuda_ffts_describe(bti_cuda_device *device, bti_str *text) {
    const bti_fft_lines lines = {BTI_FFT_FORWARD, BT_F32, 1, 1 << 20, 1};
    planned_fft tried;
    const char *call;
    if (!bti_cuda_has(BTI_CUDA_CUFFT) || bti_cuda_enter(device) != BT_OK) return;
    cufftResult result = make_fft_plan(&lines, &tried, &call);
    if (!result) (void)bti_cufft.cufftDestroy(tried.plan);
    (void)bti_cuda_leave(BT_OK);
    if (result)
        bti_str_addf(text, "cuFFT does not work, and the host computes Fourier transforms: %s: result %d\n", call,
                     result);
}
