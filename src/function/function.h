/* What explaining a function needs of it. */
#ifndef BTI_FUNCTION_FUNCTION_H
#define BTI_FUNCTION_FUNCTION_H

#include <berth/function.h>

#include "array/record.h"

/* Records one call: outputs[] (as many as the function has) become arrays of the innermost scope; updates are set, or not. */
bt_status bti_call_record(bt_function *function, bt_array *const *arguments, int argument_count, bt_array **outputs,
                          bool with_updates);
int bti_function_outputs(const bt_function *function);
uint64_t bti_functions_alive(void);

#endif
