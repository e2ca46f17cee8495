/* What runs programs on the cores of this process, for the drivers cpu and sim: addresses are pointers. Any thread. */
#ifndef BTI_DRIVERS_ENGINE_H
#define BTI_DRIVERS_ENGINE_H

#include "drivers/driver.h"

/* A primitive that is run whole: products by libraries, gathers split over cores, the rest by the interpreter. */
bt_status bti_engine_work(const bti_work *work);

/* A fused kernel. It runs in blocks, by functions that were compiled with us, until so much of it has been run that
 * compiling it pays; from then on as compiled code. Both give the same bits. */
typedef struct bti_engine_kernel bti_engine_kernel;
bt_status bti_engine_load(const bti_kernel *kernel, bti_render_function *render, bti_engine_kernel **loaded);
void bti_engine_free(bti_engine_kernel *loaded); /* NULL is fine */
const bti_kernel *bti_engine_kernel_of(const bti_engine_kernel *loaded);
bt_status bti_engine_run(bti_engine_kernel *loaded, const bti_box *box);

#endif
