#include "launch/gpu_conv.h"

#include "launch/gpu_job.h"
#include "launch/gpu_product.h"
#include "reference/conv.h"
#include "reference/operand.h"

#define SIDE 64 /* of a tile: render/c/matmul.h */

static void add_axes(bti_gpu_job *j, const int64_t sizes[BTI_CONV_AXES]) {
    BTI_GPU_NUMBERS(j, sizes[0], sizes[1], sizes[2]);
}

static bt_status launch_text(bti_gpu_job *j) {
    static const bti_gpu_text_entry entry = {0, "bti_matmul", 1};
    bti_conv c = bti_conv_of(j->asked);
    bti_conv_product s = bti_conv_product_of(&c);
    if (s.rows > INT32_MAX || s.columns > INT32_MAX || s.depth > INT32_MAX)
        return bti_fail(BT_UNIMPLEMENTED,
                        "%s: a convolution of %lld outputs by %lld places by %lld; each must be less than 2**31",
                        j->gpu->name, (long long)s.rows, (long long)s.columns, (long long)s.depth);
    BTI_TRY(bti_gpu_work_module(j->gpu, j->work, 0, &j->module));
    int64_t tiles = c.groups * bti_pieces_of(s.rows, SIDE) * bti_pieces_of(s.columns, SIDE);
    BTI_GPU_ADDRESSES(j, bti_gpu_job_input(j, 1), bti_gpu_job_input(j, 0)); /* left: w, or y where w is made */
    BTI_GPU_NUMBERS(j, tiles, c.groups, s.rows, s.columns, s.depth, c.outputs, c.channels);
    add_axes(j, c.x), add_axes(j, c.w), add_axes(j, c.y), add_axes(j, c.stride), add_axes(j, c.before),
        add_axes(j, c.dilation);
    bti_words_add_address(&j->words, j->output.address);
    return bti_gpu_job_launch(j, entry, tiles);
}

/* Where it is one product for each image and group, by the library of products. */
static bt_status launch_product(bti_gpu_job *j, const bti_work *dense, bool *done) {
    bti_conv c = bti_conv_of(dense);
    bti_operand operands[3];
    if (!bti_conv_is_product(&c)) return BT_OK;
    bti_conv_product_operands(&c, operands);
    bti_work product = {.op = BTI_OP_matmul, .input_count = 2, .inputs = operands, .output = operands[2]};
    return bti_gpu_launch_by_library(j->gpu, j->work, &product, done);
}

/* Small floats that were widened are multiplied by tensor cores in the library of convolutions alone. */
static bt_status launch_by_libraries(bti_gpu_job *j, const bti_work *dense, bool *done) {
    const bti_gpu_driver *driver = j->gpu->driver;
    bool narrow = dense->attr->window.narrow;
    if (!narrow) BTI_TRY(launch_product(j, dense, done));
    if (!*done && driver->conv) BTI_TRY(driver->conv(j->gpu->device, dense, done));
    return *done || !narrow ? BT_OK : launch_product(j, dense, done);
}

bt_status bti_gpu_launch_conv(bti_gpu_job *j) {
    bool done = false;
    bti_work dense = *j->asked;
    for (int i = 0; i < 2; i++) BTI_TRY(bti_gpu_job_make_dense_input(j, i));
    BTI_TRY(bti_gpu_job_make_dense_output(j));
    dense.inputs = j->input;
    dense.output = j->output;
    BTI_TRY(launch_by_libraries(j, &dense, &done));
    if (!done) BTI_TRY(launch_text(j));
    return bti_gpu_job_store_output(j);
}
