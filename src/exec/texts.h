/* Render as a stage: texts that programs lack are written and given to their drivers. */
#ifndef BTI_EXEC_TEXTS_H
#define BTI_EXEC_TEXTS_H

#include "base/vec.h"
#include "device/device.h"

/* Whether the program lacked a text, which it was given: *status then says whether that went well. `launched` as in drivers/driver.h. */
bool bti_texts_supply(const bti_program *program, bool launched, bt_status *status);
/* The program of a device with all texts that it needs before its first launch. */
bt_status bti_texts_program(int device, const bti_program_source *source, bti_program **program);

/* Programs that are wanted together, and made on several cores at once where that runs compilers. */
typedef struct bti_program_want {
    int device;
    bti_program_source source;
    bti_kernel *kernel; /* of the source, if it is not the plan's; freed at the end */
    bti_program **program;
    bti_error *error;
} bti_program_want;
typedef BTI_VEC(bti_program_want) bti_program_wants;
/* The program, at once or by bti_texts_programs; `source` and what it refers to but `kernel` stay until then. Takes the kernel over, which may be
 * NULL. */
bt_status bti_texts_want(bti_program_wants *wants, int device, const bti_program_source *source, bti_kernel *kernel,
                         bti_program **program);
bt_status bti_texts_programs(bti_program_wants *wants);
void bti_texts_wants_free(bti_program_wants *wants);

#endif
