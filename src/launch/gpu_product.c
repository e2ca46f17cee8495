#include "launch/gpu_product.h"

#include <string.h>

#include "launch/gpu_job.h"
#include "reference/operand.h"

#define SIDE 64 /* of a tile: render/c/matmul.h */

/* --- for libraries ------------------------------------------------------------------------------------------------ */

/* The last two axes of an operand as a matrix; false: neither rows nor columns are contiguous. */
static bool read_matrix(const bti_operand *o, bti_gpu_matrix *read) {
    int64_t rows = o->shape[o->rank - 2], columns = o->shape[o->rank - 1];
    int64_t down = o->stride[o->rank - 2], along = o->stride[o->rank - 1];
    if ((along == 1 || columns == 1) && (down >= columns || rows == 1))
        *read = (bti_gpu_matrix){.leading = rows == 1 ? columns : down};
    else if ((down == 1 || rows == 1) && (along >= rows || columns == 1))
        *read = (bti_gpu_matrix){.leading = columns == 1 ? rows : along, .transposed = true};
    else
        return false;
    return true;
}

static void read_batch(const bti_work *work, bti_gpu_product *product) {
    const bti_operand *all[] = {&work->inputs[0], &work->inputs[1], &work->output};
    bti_gpu_matrix *matrices[] = {&product->left, &product->right, &product->out};
    int64_t *stride[3];
    int axes = work->output.rank - 2;
    for (int i = 0; i < 3; i++) stride[i] = memcpy(product->stride[i], all[i]->stride, (size_t)axes * sizeof **stride);
    memcpy(product->extent, work->output.shape, (size_t)axes * sizeof *product->extent);
    axes = bti_axes_collapse(0, axes, axes, product->extent, 3, stride);
    product->outside = axes ? axes - 1 : 0;
    product->batch = axes ? product->extent[axes - 1] : 1;
    for (int i = 0; i < 3 && axes; i++) matrices[i]->batch_step = stride[i][axes - 1];
}

bool bti_gpu_product_of(const bti_work *work, bti_gpu_product *product) {
    const bti_operand *left = &work->inputs[0], *out = &work->output;
    *product = (bti_gpu_product){
        .rows = out->shape[out->rank - 2], .columns = out->shape[out->rank - 1], .inner = left->shape[left->rank - 1]};
    if (!product->rows || !product->columns || !product->inner || !read_matrix(left, &product->left) ||
        !read_matrix(&work->inputs[1], &product->right) || !read_matrix(out, &product->out) || product->out.transposed)
        return false;
    read_batch(work, product);
    return product->out.batch_step != 0 || product->batch <= 1;
}

bt_status bti_gpu_product_each(const bti_work *work, const bti_gpu_product *product, bti_gpu_product_function *function,
                               void *data) {
    uint64_t in = bt_dtype_size(work->inputs[0].dtype), size = bt_dtype_size(work->output.dtype);
    int64_t at[BTI_MAX_RANK] = {0};
    for (int axis = product->outside; axis >= 0;) {
        uint64_t left = work->inputs[0].address, right = work->inputs[1].address, out = work->output.address;
        for (int i = 0; i < product->outside; i++) {
            left += (uint64_t)(at[i] * product->stride[0][i]) * in;
            right += (uint64_t)(at[i] * product->stride[1][i]) * in;
            out += (uint64_t)(at[i] * product->stride[2][i]) * size;
        }
        BTI_TRY(function(data, left, right, out));
        for (axis = product->outside - 1; axis >= 0 && ++at[axis] == product->extent[axis]; axis--) at[axis] = 0;
    }
    return BT_OK;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

/* The one stride of all leading axes; false: they have none in common. */
static bool batch_stride(const bti_operand *operand, int64_t *stride) {
    int64_t expected = 0;
    bool found = false;
    *stride = 0;
    for (int axis = operand->rank - 3; axis >= 0; axis--) {
        if (operand->shape[axis] == 1) continue;
        if (found && operand->stride[axis] != expected) return false;
        if (!found) *stride = operand->stride[axis];
        found = true;
        expected = operand->stride[axis] * operand->shape[axis];
    }
    return true;
}

static bt_status read_matrices(bti_gpu_job *j, int number, int64_t *stride) {
    j->input[number] = j->given[number];
    if (batch_stride(&j->input[number], stride)) return BT_OK;
    BTI_TRY(bti_gpu_job_make_dense_input(j, number));
    batch_stride(&j->input[number], stride);
    return BT_OK;
}

/* The words of the two matrices, which are BTI_PRODUCT_WORDS, and how many tiles there are. */
static bt_status begin_product(bti_gpu_job *j, int64_t *tiles) {
    int64_t strides[2], batch = 1;
    const bti_operand *out = &j->wanted;
    BTI_TRY(bti_gpu_work_module(j->gpu, j->work, 0, &j->module));
    for (int i = 0; i < 2; i++) BTI_TRY(read_matrices(j, i, &strides[i]));
    for (int axis = 0; axis < out->rank - 2; axis++) batch *= out->shape[axis];
    int64_t rows = out->shape[out->rank - 2], columns = out->shape[out->rank - 1];
    *tiles = batch * bti_pieces_of(rows, SIDE) * bti_pieces_of(columns, SIDE);
    BTI_GPU_ADDRESSES(j, bti_gpu_job_input(j, 0), bti_gpu_job_input(j, 1));
    BTI_GPU_NUMBERS(j, *tiles, batch, rows, columns, j->input[0].shape[j->input[0].rank - 1]);
    for (int i = 0; i < 2; i++)
        BTI_GPU_NUMBERS(j, strides[i], j->input[i].stride[out->rank - 2], j->input[i].stride[out->rank - 1]);
    return BT_OK;
}

/* Room for an operand in another dtype: as it lies, but dense, and what is repeated once. *from is the part of it that is not repeated. */
static bt_status make_room(bti_gpu *gpu, int slot, bt_dtype dtype, bti_operand *from, bti_operand *room) {
    *room = *from;
    room->dtype = dtype;
    int rank = from->rank, inner = from->stride[rank - 2] < from->stride[rank - 1] ? rank - 2 : rank - 1;
    int64_t step = 1;
    for (int i = 0; i < rank; i++) {
        int axis = i == 0 ? inner : i == 1 ? 2 * rank - 3 - inner : rank - 1 - i;
        room->stride[axis] = from->stride[axis] ? step : 0;
        if (!from->stride[axis]) from->shape[axis] = 1;
        step *= from->shape[axis];
    }
    bool quiet = bti_errors_quiet(true); /* launches go on without that memory */
    bt_status status = bti_gpu_scratch(gpu, slot, (size_t)step * bt_dtype_size(dtype), &room->address);
    bti_errors_quiet(quiet);
    return status;
}

static bt_status round_input(bti_gpu *gpu, bti_gpu_work *work, int slot, bt_dtype dtype, const bti_operand *input,
                             bti_operand *rounded) {
    bti_operand from = *input;
    bool done;
    BTI_TRY(make_room(gpu, slot, dtype, &from, rounded));
    bti_operand to = *rounded;
    memcpy(to.shape, from.shape, sizeof to.shape);
    bti_work cast = {.op = BTI_OP_cast, .input_count = 1, .inputs = &from, .output = to};
    return bti_gpu_work_as_kernels(gpu, work, &cast, &done);
}

/* With inputs as the library had better get them if there is memory for that. */
bt_status bti_gpu_launch_by_library(bti_gpu *gpu, bti_gpu_work *work, const bti_work *product, bool *done) {
    const bti_gpu_driver *driver = gpu->driver;
    bti_work rounded = *product;
    bti_operand inputs[2];
    *done = false;
    if (!driver->product) return BT_OK;
    bt_dtype dtype = driver->product_dtype ? driver->product_dtype(gpu->device, product) : product->inputs[0].dtype;
    bt_status status = BT_OK;
    for (int i = 0; i < 2 && status == BT_OK && dtype != product->inputs[0].dtype; i++) {
        status = round_input(gpu, work, BTI_GPU_INPUT + i, dtype, &product->inputs[i], &inputs[i]);
        rounded.inputs = inputs;
    }
    if (status == BT_RESOURCE_EXHAUSTED) {
        bt_error_clear();
        rounded.inputs = product->inputs;
        status = BT_OK;
    }
    if (status != BT_OK) return status;
    BTI_TRY(driver->product(gpu->device, &rounded, done));
    return *done || rounded.inputs == product->inputs ? BT_OK : driver->product(gpu->device, product, done);
}

static const bti_gpu_text_entry product_entry = {0, "bti_matmul", 1};

bt_status bti_gpu_launch_matmul(bti_gpu_job *j) {
    bool done;
    BTI_TRY(bti_gpu_launch_by_library(j->gpu, j->work, j->asked, &done));
    if (done) return BT_OK;
    int64_t tiles, batch_step;
    BTI_TRY(bti_gpu_job_make_dense_output(j));
    BTI_TRY(begin_product(j, &tiles));
    batch_stride(&j->output, &batch_step);
    bti_words_add_address(&j->words, j->output.address);
    BTI_GPU_NUMBERS(j, batch_step, j->output.stride[j->output.rank - 2], j->output.stride[j->output.rank - 1]);
    BTI_TRY(bti_gpu_job_launch(j, product_entry, tiles));
    return bti_gpu_job_store_output(j);
}

/* --- with an epilogue ----------------------------------------------------------------------------------------------- */

static bt_status launch_apart(bti_gpu *gpu, bti_gpu_work *work, bti_gpu_kernel *kernel, int made,
                              const bti_work *product, const bti_box *box, bool *done) {
    bti_work placed = *product;
    bti_box in_place = *box;
    int place = bti_kernel_output_like(bti_gpu_kernel_of(kernel), made, box);
    size_t bytes = (size_t)bti_operand_count(&product->output) * bt_dtype_size(product->output.dtype);
    if (place >= 0)
        placed.output.address = box->address[place];
    else
        BTI_TRY(bti_gpu_scratch(gpu, BTI_GPU_OUTPUT, bytes, &placed.output.address));
    in_place.address[made] = placed.output.address;
    BTI_TRY(bti_gpu_kernel_find_text(gpu, kernel, &in_place));
    BTI_TRY(bti_gpu_launch_by_library(gpu, work, &placed, done));
    return *done ? bti_gpu_kernel_launch(gpu, kernel, &in_place) : BT_OK;
}

static bt_status launch_together(bti_gpu_job *j, const bti_kernel *kernel, int made, const bti_box *box) {
    bti_kernel epilogue;
    bti_words words;
    int64_t tiles;
    BTI_TRY(begin_product(j, &tiles));
    bti_epilogue_without_memory(kernel, made, &epilogue);
    bti_words_of(&epilogue, BTI_ENTRY_RUN, box, 0, &words);
    bti_words_append(&j->words, &words);
    return bti_gpu_job_launch(j, product_entry, tiles);
}

bt_status bti_gpu_launch_epilogue(bti_gpu *gpu, bti_gpu_work *work, bti_gpu_kernel *kernel, int made,
                                  const bti_work *product, const bti_box *box) {
    bti_gpu_job j = {.gpu = gpu, .work = work, .asked = product, .wanted = product->output};
    bool done = false;
    j.output.address = box->address[bti_gpu_kernel_of(kernel)->input_count]; /* any, for matrices without elements */
    for (int i = 0; i < 2; i++) j.given[i] = product->inputs[i];
    if (gpu->driver->product && gpu->driver->has_product(gpu->device, product->output.dtype))
        BTI_TRY(launch_apart(gpu, work, kernel, made, product, box, &done));
    return done ? BT_OK : launch_together(&j, bti_gpu_kernel_of(kernel), made, box);
}
