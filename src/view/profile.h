/* The tables of a profile. */
#ifndef BTI_VIEW_PROFILE_H
#define BTI_VIEW_PROFILE_H

#include "base/str.h"
#include "base/trace.h"

/* Appends the text of bt_profile_stop. */
void bti_profile_text(bti_str *text, const bti_trace_log *log);

#endif
