/* Render as a stage: texts that programs lack are written and given to their drivers. */
#ifndef BTI_EXEC_TEXTS_H
#define BTI_EXEC_TEXTS_H

#include "base/vec.h"
#include "device/device.h"

/* Whether the program's last launch lacked a text, which it was given: *status then says whether that went well. */
bool bti_texts_supply(const bti_program *program, bt_status *status);
/* The program of a device with the texts that it is known to need: of a fused kernel those of a launch of so many boxes, of which this is the first (0: unknown). */
bt_status bti_texts_program(int device, const bti_program_source *source, const bti_box *box, int box_count,
                            bti_program **program);

/* Programs that are wanted together, and made on several cores at once where that runs compilers. */
typedef struct bti_program_want {
    int device;
    bti_program_source source;
    bti_kernel *kernel;          /* of the source, if it is not the plan's; freed at the end */
    bti_segment_source *segment; /* likewise */
    bti_box *box;                /* likewise; NULL: unknown */
    int box_count;
    bti_program **program;
    bti_error *error;
} bti_program_want;
typedef BTI_VEC(bti_program_want) bti_program_wants;
/* A program, at once or by bti_texts_programs; what its source refers to but `kernel` and `segment` stays until then. Takes over the kernel, the segment and the box. */
bt_status bti_texts_want(bti_program_wants *wants, const bti_program_want *want);
bt_status bti_texts_programs(bti_program_wants *wants);
void bti_texts_wants_free(bti_program_wants *wants);

#endif
