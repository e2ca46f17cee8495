/* Steps that call a function of the program's on the host. */
#ifndef BTI_EXEC_HOST_H
#define BTI_EXEC_HOST_H

#include "device/device.h"
#include "ir/plan.h"

/* Calls it with the elements at these addresses of the device (inputs, then outputs), over host memory where the device has none. */
bt_status bti_host_step_run(bti_host_function *host, const bti_plan *plan, const bti_step *step, const bti_attr *attr,
                            const uint64_t *addresses);
/* Whether the device can do it at all, by its function or its kernel; UNIMPLEMENTED says what is missing. */
bt_status bti_host_can_run_on(const bti_host_function *host, int device);
/* Of a step whose kernel runs on the device: its program and the kernel's grid. numbers: room for its words behind the addresses (launch/program.h). */
bt_status bti_host_kernel(bti_host_function *host, const bti_plan *plan, const bti_step *step, int64_t *numbers,
                          bt_custom_grid *grid, bti_program **program);
/* The program by which a library of the device's computes a Fourier transform, or linear algebra, yours to release; *program NULL: the host computes it. */
bt_status bti_host_by_library(const bti_plan *plan, const bti_step *step, bti_program **program);
int bti_host_kernel_numbers(const bti_plan *plan, const bti_step *step);
/* Whether this thread is inside of such a function. */
bool bti_host_is_inside(void);
/* FAILED_PRECONDITION there. For each call that may wait for a queue, directly or for a thread that does: the queue goes on when the function has
 * returned. */
bt_status bti_host_check(void);

#endif
