/* Plans as text, as JSON, and as a picture for Graphviz. */
#ifndef BTI_IR_PRINT_H
#define BTI_IR_PRINT_H

#include "base/numtext.h"
#include "ir/plan.h"

/* One line per operation and copy, in order, then the totals per device. device_name(number) gives "GPU:0". */
void bti_plan_text(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device));

/* The same as one JSON object without line ends (false when memory is short), and as a graph for Graphviz. */
bool bti_plan_json(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device));
void bti_plan_dot(bti_str *text, const bti_plan *plan, const char *(*device_name)(int device));

/* The words for why a value is in memory. */
const char *bti_why_text(bti_why why);
/* What a region of an operation is: "each step", "if true". */
const char *bti_region_name(bti_op op, int which);
/* Elements as NumPy prints them, yours to bti_free; NULL when memory is short. */
char *bti_elements_text(const bt_elements *elements, bti_text_style style);

#endif
