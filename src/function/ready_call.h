/* Makes calls ready to run. */
#ifndef BTI_FUNCTION_READY_CALL_H
#define BTI_FUNCTION_READY_CALL_H

#include "function/function.h"

/* As the flags and this thread's blocks say now. */
bti_plan_setting bti_plan_setting_now(void);
/* The ready call for these nodes (all DONE), made when it is not there; retained. NULL: such a call is best recorded (it fails, or memory is short). */
bti_ready_call *bti_ready_call_make(bt_function *function, bti_node *const *given, bti_plan_setting setting);
/* One with a plan that is not made ready to run: it lives no longer than what is returned. NULL: there is none, maybe with the
 * cause in the error record. */
bti_ready_call *bti_ready_call_plan(bt_function *function, bti_node *const *given, bti_plan_setting setting,
                                    bti_plan *plan);

#endif
