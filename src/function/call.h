/* Recording a call, for those who look at it rather than run it. */
#ifndef BTI_FUNCTION_CALL_H
#define BTI_FUNCTION_CALL_H

#include "array/handle.h"

#include <berth/function.h>

/* Records one call: outputs[] (as many as the function has) become arrays of the innermost scope; updates are set, or not. */
bt_status bti_call_record(bt_function *function, bt_array *const *arguments, int argument_count, bt_array **outputs,
                          bool with_updates);

#endif
