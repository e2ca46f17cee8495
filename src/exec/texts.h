/* Render as a stage: texts that programs lack are written and given to their drivers. */
#ifndef BTI_EXEC_TEXTS_H
#define BTI_EXEC_TEXTS_H

#include "device/device.h"

/* Whether the program lacked a text, which it was given: *status then says whether that went well. `launched` as in drivers/driver.h. */
bool bti_texts_supply(const bti_program *program, bool launched, bt_status *status);
/* The program of a device with all texts that it needs before its first launch. */
bt_status bti_texts_program(int device, const bti_program_source *source, bti_program **program);

#endif
