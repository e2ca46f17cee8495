/* A view as tables, for people. */
#ifndef BTI_TASK_TABLES_H
#define BTI_TASK_TABLES_H

#include "base/error.h"

/* Of the text of its JSON, which is freed; yours to bti_free. NULL with the cause in the error record. */
char *bti_view_tables_of(char *json);

#endif
