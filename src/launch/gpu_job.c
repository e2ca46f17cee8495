#include "launch/gpu_job.h"

#include <string.h>

#include "reference/operand.h"

/* --- operands ----------------------------------------------------------------------------------------------------- */

void bti_gpu_job_move_axis_last(bti_operand *operand, int axis) {
    int last = operand->rank - 1;
    int64_t shape = operand->shape[axis], stride = operand->stride[axis];
    size_t bytes = (size_t)(last - axis) * sizeof shape;
    memmove(operand->shape + axis, operand->shape + axis + 1, bytes);
    memmove(operand->stride + axis, operand->stride + axis + 1, bytes);
    operand->shape[last] = shape;
    operand->stride[last] = stride;
}

static size_t bytes_of(const bti_operand *operand) {
    return (size_t)bti_operand_count(operand) * bt_dtype_size(operand->dtype);
}

bt_status bti_gpu_job_make_dense_input(bti_gpu_job *job, int number) {
    const bti_operand *given = &job->given[number];
    job->input[number] = *given;
    bti_operand_make_dense(&job->input[number]);
    if (bti_operand_is_dense(given) || !bti_operand_count(given)) return BT_OK;
    BTI_TRY(bti_gpu_scratch(job->gpu, BTI_GPU_INPUT + number, bytes_of(given), &job->input[number].address));
    return bti_gpu_work_copy(job->gpu, job->work, given, &job->input[number]);
}

bt_status bti_gpu_job_make_dense_output(bti_gpu_job *job) {
    job->output = job->wanted;
    bti_operand_make_dense(&job->output);
    if (bti_operand_is_dense(&job->wanted)) return BT_OK;
    return bti_gpu_scratch(job->gpu, BTI_GPU_OUTPUT, bytes_of(&job->output), &job->output.address);
}

bt_status bti_gpu_job_store_output(bti_gpu_job *job) {
    if (bti_operand_is_dense(&job->wanted)) return BT_OK;
    return bti_gpu_work_copy(job->gpu, job->work, &job->output, &job->wanted);
}

bt_status bti_gpu_job_begin_update(bti_gpu_job *job) {
    if (job->given[0].address == job->output.address) return BT_OK;
    return bti_gpu_work_copy(job->gpu, job->work, &job->given[0], &job->output);
}

void bti_gpu_job_split_axes(bti_gpu_job *job, const bti_operand *operand, int axis) {
    job->outer = job->inner = 1;
    for (int a = 0; a < axis; a++) job->outer *= operand->shape[a];
    for (int a = axis + 1; a < operand->rank; a++) job->inner *= operand->shape[a];
    job->length = operand->rank ? operand->shape[axis] : 1;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

uint64_t bti_gpu_job_input(const bti_gpu_job *job, int number) {
    return bti_operand_count(&job->input[number]) ? job->input[number].address : job->output.address;
}

void bti_gpu_job_set_addresses(bti_gpu_job *job, int count, const uint64_t *addresses) {
    job->words.count = job->words.address_count = 0;
    for (int i = 0; i < count; i++) bti_words_add_address(&job->words, addresses[i]);
}

void bti_gpu_job_add_numbers(bti_gpu_job *job, int count, const int64_t *numbers) {
    for (int i = 0; i < count; i++) bti_words_add(&job->words, (uint64_t)numbers[i]);
}

bt_status bti_gpu_job_launch(bti_gpu_job *job, bti_gpu_text_entry entry, int64_t units) {
    bti_gpu_grid grid = {
        .number = entry.number, .name = entry.name, .units = units, .at_once = entry.at_once, .threads = BTI_GROUP};
    return bti_gpu_module_launch(job->gpu, job->module, &grid, &job->words);
}

int64_t bti_gpu_lanes(int64_t count, int64_t each) {
    int64_t lanes = 1;
    while (lanes < BTI_GROUP && lanes * each < count) lanes *= 2;
    return lanes;
}
