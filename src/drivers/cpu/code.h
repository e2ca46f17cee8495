/* A kernel's code of either kind, run over cores. */
#ifndef BTI_DRIVERS_CODE_H
#define BTI_DRIVERS_CODE_H

#include "drivers/cpu/blocks.h"
#include "drivers/cpu/compiled/compiled.h"
#include "drivers/cpu/launch.h"

typedef struct bti_code {
    const bti_compiled *compiled;
    const void *const *functions; /* of its target */
    bool streams;                 /* compiled of the kernel with `stream` */
    int64_t half;                 /* of a box that is run in pairs; 0 */
} bti_code;

bti_runner bti_blocks_runner(const bti_kernel *kernel, const bti_blocks *blocks);
bti_runner bti_compiled_runner(const bti_kernel *kernel, const bti_code *code); /* both outlive it */

/* bti_launch with such a runner; compiled code in pairs where it can be. */
bt_status bti_launch_blocks(const bti_kernel *kernel, const bti_blocks *blocks, const bti_box *box);
bt_status bti_launch_compiled(const bti_kernel *kernel, const bti_code *code, const bti_box *box);

#endif
