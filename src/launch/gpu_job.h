/* One launch of a primitive with a text of its own (render/c/): its operands as dense arrays, and the words of its functions. */
#ifndef BTI_LAUNCH_GPU_JOB_H
#define BTI_LAUNCH_GPU_JOB_H

#include "launch/gpu_engine.h"

typedef struct bti_gpu_job {
    bti_gpu *gpu;
    bti_gpu_work *work;
    bti_gpu_module *module;
    const bti_work *asked;
    bti_operand given[3], wanted; /* what was asked for, with axes in another order where that is faster */
    bti_operand input[3], output; /* dense */
    int axis;                     /* of given and wanted */
    bool scatters;                /* what bti_op_updates */
    int64_t outer, length, inner; /* of an operand, by the axis */
    bti_words words;
} bti_gpu_job;

/* --- operands --- */
/* Moves an axis to the end. */
void bti_gpu_job_move_axis_last(bti_operand *operand, int axis);
bt_status bti_gpu_job_make_dense_input(bti_gpu_job *job, int number);
bt_status bti_gpu_job_make_dense_output(bti_gpu_job *job);
bt_status bti_gpu_job_store_output(bti_gpu_job *job);
/* Of an update: the output becomes the first input, of which parts are then changed. */
bt_status bti_gpu_job_begin_update(bti_gpu_job *job);
void bti_gpu_job_split_axes(bti_gpu_job *job, const bti_operand *operand, int axis);

/* --- launches --- */
/* The address of an input. One without elements has no memory: any address will do, because nothing is read. */
uint64_t bti_gpu_job_input(const bti_gpu_job *job, int number);
/* The words of a launch: first the addresses, then the numbers. */
void bti_gpu_job_set_addresses(bti_gpu_job *job, int count, const uint64_t *addresses);
void bti_gpu_job_add_numbers(bti_gpu_job *job, int count, const int64_t *numbers);
#define BTI_GPU_ADDRESSES(job, ...)                                                                   \
    bti_gpu_job_set_addresses(job, (int)(sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), \
                              (const uint64_t[]){__VA_ARGS__})
#define BTI_GPU_NUMBERS(job, ...)                                                                 \
    bti_gpu_job_add_numbers(job, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                            (const int64_t[]){__VA_ARGS__})

/* A function of the text. `at_once`: units that a group processes at a time. */
typedef struct bti_gpu_text_entry {
    int number;
    const char *name;
    int at_once;
} bti_gpu_text_entry;
bt_status bti_gpu_job_launch(bti_gpu_job *job, bti_gpu_text_entry entry, int64_t units);

/* The power of two of threads for which `each` elements of `count` are enough; a group at most. */
int64_t bti_gpu_lanes(int64_t count, int64_t each);

#endif
