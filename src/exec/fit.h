/* Predictions of memory, noted before each run while flag `fit` asks for them. */
#ifndef BTI_EXEC_FIT_H
#define BTI_EXEC_FIT_H

#include "exec/exec.h"

/* Before the memory of a run, or of what the host gives, is taken, and after: taken, or refused. Between the two no other thread
 * takes any. False: nobody wants to know, and there is no end. */
bool bti_fit_begin(const bti_plan *plan);
bool bti_fit_begin_upload(const bti_buffer *buffer);
void bti_fit_end(bool reserved);

#endif
