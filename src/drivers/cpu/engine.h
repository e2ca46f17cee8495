/* Runs programs on the cores of this process, for the drivers cpu and sim: addresses are pointers. Any thread.
 *
 * The way of a launch of a fused kernel: bti_engine_run (engine.c) chooses between the block interpreter and compiled code;
 * launch.c cuts the box into pieces and runs them on the cores; blocks.c interprets a piece, or the compiled function runs. */
#ifndef BTI_DRIVERS_ENGINE_H
#define BTI_DRIVERS_ENGINE_H

#include "drivers/driver.h"

/* A primitive that runs whole: matrix products (product/), data movement split over the cores (gather.c), everything else, and
 * everything under the flag kernels=interpreter, by the interpreter. */
bt_status bti_engine_work(const bti_work *work);

/* A fused kernel. It runs in the block interpreter, whose code is part of the library, until the time that this took would have
 * paid for compiling it; from then on as compiled code. Both give the same bits. */
typedef struct bti_engine_kernel bti_engine_kernel;
bt_status bti_engine_load(const bti_kernel *kernel, bti_render_function *render, bti_engine_kernel **loaded);
void bti_engine_free(bti_engine_kernel *loaded); /* NULL is fine */
const bti_kernel *bti_engine_kernel_of(const bti_engine_kernel *loaded);
bt_status bti_engine_run(bti_engine_kernel *loaded, const bti_box *box);

#endif
