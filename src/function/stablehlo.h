/* A function as the text of a StableHLO module. */
#ifndef BTI_FUNCTION_STABLEHLO_H
#define BTI_FUNCTION_STABLEHLO_H

#include <berth/function.h>

#include "base/str.h"

/* The module begins with comments that say what its arguments and results are: inputs, then variables; outputs, then the variables' new values. Computes the
 * function's constants and waits for them. */
bt_status bti_function_stablehlo(const bt_function *function, bti_str *text);

#endif
