/* The programs of one device. */
#ifndef BTI_DEVICE_PROGRAM_H
#define BTI_DEVICE_PROGRAM_H

#include "device/table.h"

struct bti_programs *bti_programs_new(void); /* NULL when memory is short */
void bti_programs_delete(bt_device *device); /* every program; for the closing of the device */
/* Of an open device; as bti_device_program. */
bt_status bti_programs_get(bt_device *device, const bti_program_source *source, bti_program **program, bool *made);

#endif
