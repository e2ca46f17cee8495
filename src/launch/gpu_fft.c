/* Fourier transforms by the driver's library, which is given lines of points that follow one another, or one block of columns. Other lines are turned before and
 * after. */
#include "base/alloc.h"
#include "ir/dtype.h"
#include "launch/gpu_engine.h"
#include "reference/operand.h"

struct bti_gpu_fft {
    bti_fft_lines lines;
    bool turned;
    void *transform; /* the driver's */
};

bt_status bti_gpu_fft_new(bti_gpu *gpu, const bti_fft_lines *lines, bti_gpu_fft **made) {
    bti_fft_lines given = *lines;
    if (!gpu->driver->fft_new) return bti_fail(BT_UNIMPLEMENTED, "%s has no library of transforms", gpu->name);
    bti_gpu_fft *fft = bti_calloc(1, sizeof *fft);
    if (!fft) return bti_no_memory();
    fft->lines = *lines;
    fft->turned = lines->outer > 1 && lines->inner > 1;
    if (fft->turned) given.outer *= given.inner, given.inner = 1;
    bt_status status = gpu->driver->fft_new(gpu->device, &given, &fft->transform);
    if (status == BT_OK)
        *made = fft;
    else
        bti_free(fft);
    return status;
}

void bti_gpu_fft_free(bti_gpu *gpu, bti_gpu_fft *fft) {
    gpu->driver->fft_free(gpu->device, fft->transform);
    bti_free(fft);
}

/* What is read, or written: where the plan has it, and where the library takes it. */
typedef struct side {
    bti_operand given, dense;
    bool moved; /* dense lies in scratch memory */
} side;

static void describe_side(const bti_gpu_fft *fft, bool is_real, int64_t points, uint64_t address, side *s) {
    const bti_fft_lines *l = &fft->lines;
    s->given = (bti_operand){.dtype = is_real ? l->part : bti_dtype_of_parts(l->part),
                             .rank = 3,
                             .address = address,
                             .shape = {l->outer, points, l->inner}};
    bti_operand_make_dense(&s->given);
    if (fft->turned) { /* the points last */
        s->given.shape[1] = l->inner, s->given.shape[2] = points;
        s->given.stride[1] = 1, s->given.stride[2] = l->inner;
    }
    s->dense = s->given;
    bti_operand_make_dense(&s->dense);
    s->moved = fft->turned || address % (2 * bt_dtype_size(l->part)); /* real numbers too must lie as complex ones do */
}

static bt_status find_room(bti_gpu *gpu, int slot, side *s) {
    if (!s->moved) return BT_OK;
    size_t bytes = (size_t)bti_operand_count(&s->dense) * bt_dtype_size(s->dense.dtype);
    return bti_gpu_scratch(gpu, slot, bytes, &s->dense.address);
}

/* Of a symmetric line, the points that are their own conjugates are real, whatever stands there. */
static bt_status make_own_real(const bti_gpu_fft *fft, bti_gpu *gpu, bti_gpu_work *work, const bti_operand *line) {
    const bti_attr zero = {.constant = {0}};
    int axis = fft->turned || fft->lines.inner == 1 ? 2 : 1;
    bool two = fft->lines.n % 2 == 0;
    bti_operand own = *line;
    bool done;
    if (fft->lines.inner == 1) { /* [outer, points, 1] */
        own.shape[2] = own.shape[1], own.stride[2] = own.stride[1];
        own.shape[1] = 1;
    }
    own.dtype = fft->lines.part;
    own.address += bt_dtype_size(own.dtype);
    own.shape[axis] = two ? 2 : 1;
    for (int i = 0; i < own.rank; i++) own.stride[i] *= i == axis ? 2 * (fft->lines.n / 2) : 2;
    const bti_work fill = {.op = BTI_OP_const, .output = own, .attr = &zero};
    return bti_gpu_work_as_kernels(gpu, work, &fill, &done);
}

/* A copy of a half line is read, where its library may write too. */
bt_status bti_gpu_fft_launch(bti_gpu *gpu, const bti_gpu_fft *fft, bti_gpu_work *work, uint64_t from, uint64_t to) {
    const bti_fft_lines *l = &fft->lines;
    bool widens = l->kind == BTI_FFT_WHOLE;
    side in, out;
    describe_side(fft, l->kind == BTI_FFT_HALF, bti_fft_points_read(l), from, &in);
    describe_side(fft, widens, bti_fft_points_written(l), to, &out);
    in.moved = in.moved || widens;
    BTI_TRY(find_room(gpu, BTI_GPU_INPUT, &in));
    BTI_TRY(find_room(gpu, BTI_GPU_OUTPUT, &out));
    if (in.moved) BTI_TRY(bti_gpu_work_copy(gpu, work, &in.given, &in.dense));
    if (widens) BTI_TRY(make_own_real(fft, gpu, work, &in.dense));
    BTI_TRY(gpu->driver->fft(gpu->device, fft->transform, in.dense.address, out.dense.address));
    return out.moved ? bti_gpu_work_copy(gpu, work, &out.dense, &out.given) : BT_OK;
}
