/* A plan as text between two passes. */
#ifndef BTI_COMPILE_PASSES_TEXT_H
#define BTI_COMPILE_PASSES_TEXT_H

#include "compile/planner.h"

/* Adds the pass's name and what the plan holds after it, a line a step:
 *     number  operation  device  v7 float32 (2, 3) = v1, v4+6(3,1)   and what this pass decided of it
 * v7 is the memory of storage 7; +6(3,1): from element 6 on, with these strides. After the first pass also the facts of the devices.
 * Passes over the regions of a step follow, with a title that says whose they are. */
void bti_passes_text(bti_str *text, const char *pass, const bti_planner *planner);

#endif
