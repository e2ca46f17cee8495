/* Runs programs on the cores of this process, for the drivers cpu and sim: addresses are pointers. Any thread. The functions are entries of
 * drivers/driver.h; `device` is not read and may be NULL.
 *
 * The way of a launch of a fused kernel: bti_cpu_launch_kernel (engine.c) chooses between the block interpreter and compiled code;
 * launch.c cuts the box into pieces and runs them on the cores; blocks.c interprets a piece, or the compiled function runs. */
#ifndef BTI_DRIVERS_CPU_ENGINE_H
#define BTI_DRIVERS_CPU_ENGINE_H

#include "drivers/cpu/blocks.h"
#include "drivers/driver.h"

/* What work on these cores finds: the vectors of AVX2, the first and the second cache of a core. */
#define BTI_CPU_FACTS                                                                                               \
    .lanes = 8, .group_threads = 1, .units = 16, .local_bytes = 64 << 10, .cache_bytes = 1 << 20, .bandwidth = 200, \
    .f64_slowdown = 2, .bucket_bytes = 256 << 10, .packs_kernels = true, .channels_last = true

/* A fused kernel runs in the block interpreter, whose code is part of the library, until the time that this took would have
 * paid for compiling it; from then on as compiled code. Both give the same bits. Other programs have no state of their own. */
bt_status bti_cpu_program_load(void *device, const bti_program_source *source, void **program);
void bti_cpu_program_free(void *device, const bti_program_source *source, void *program);
const bti_kernel *bti_cpu_program_kernel(const void *program); /* of a fused kernel, of an epilogue */
int bti_cpu_program_made(const void *program);                 /* of an epilogue: the operand that is the product */

/* A primitive that runs whole: matrix products (product/), data movement split over the cores (gather.c), everything else, and
 * everything under the flag kernels=interpreter, by the interpreter. */
bt_status bti_cpu_launch(void *device, void *program, const bti_work *work);
bt_status bti_cpu_launch_kernel(void *device, void *program, const bti_box *box);
bool bti_cpu_text_lacked(void *device, void *program, bti_text_wanted *wanted);
bt_status bti_cpu_text_give(void *device, void *program, const bti_text_wanted *wanted, const bti_str *text);
/* bti_cpu_launch_kernel in two parts, for drivers that do something in between: whether the launch lacks a text (it is wanted then, and a launch that
 * is not repeated with it runs blocks), and the launch with what is there. */
bool bti_cpu_lacks_text(void *program, const bti_box *box);
bt_status bti_cpu_run_kernel(void *program, const bti_box *box);

/* Steps of loops (series.c): what is compiled, or is not going to be, runs on the calling thread. */
void bti_cpu_launch_series(void *device, bti_series *series);
/* The code that launches of boxes of this shape run, whole and on the calling thread, until a flag is set. False: it is not settled, the boxes are cut into pieces, or launches are checked. */
typedef struct bti_settled {
    bti_run_function *run; /* NULL: blocks run */
    const void *const *functions;
    const bti_blocks *blocks;
} bti_settled;
bool bti_cpu_settled(void *program, const bti_box *box, bti_settled *settled);

#endif
