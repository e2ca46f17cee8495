/* Shared variables in archives. */
#ifndef BTI_FILE_VARIABLES_H
#define BTI_FILE_VARIABLES_H

#include <berth/file.h>

/* Sets each variable to the tensor of its name: all or none. A tensor that is missing, another shape or dtype, and a tensor that is no variable's are INVALID_ARGUMENT with the
 * differences. `what`: "model". `beside`: names that begin so are others' tensors; may be NULL. */
bt_status bti_variables_load(const bt_tensors *file, const char *what, bt_shared *const *variables,
                             const char *const *names, int count, const char *beside);

#endif
