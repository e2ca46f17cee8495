/* Steps that call a function of the program's on the host. */
#ifndef BTI_EXEC_HOST_H
#define BTI_EXEC_HOST_H

#include "device/device.h"
#include "ir/plan.h"

/* Calls it with the elements at these addresses of the device (inputs, then the output), over host memory where the device has none. */
bt_status bti_host_step_run(bti_host_function *host, const bti_plan *plan, const bti_step *step, const bti_attr *attr,
                            const uint64_t *addresses);
/* FAILED_PRECONDITION on a thread that is inside of such a function, where it would wait for itself. */
bt_status bti_host_check(void);

#endif
