/* The programs of segments. */
#ifndef BTI_EXEC_SEGMENT_H
#define BTI_EXEC_SEGMENT_H

#include "exec/texts.h"
#include "ir/plan.h"

/* The program of the segment, at once or with those that are wanted. UNIMPLEMENTED names an operation that the device cannot do there. given: the numbers that the text leaves open, the program's last input, on the
 * device; NULL: it leaves none open. types: of the arrays, where the program takes longer ones (the flag pad_sizes); else NULL. */
bt_status bti_segment_ready(const bti_plan *plan, const bti_step *step, bti_program_wants *wants, bti_block **given,
                            bti_type **types, bti_program **program);

#endif
