/* What a runtime knows, as text for programs. */
#ifndef BTI_TASK_VIEW_H
#define BTI_TASK_VIEW_H

#include "task/state.h"

/* `what` is "json" or "timeline". Yours to bti_free; NULL when memory is short or there is no such view. */
char *bti_view_text(bti_state *state, const char *what);

#endif
