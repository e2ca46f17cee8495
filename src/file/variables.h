/* Shared variables in archives. */
#ifndef BTI_FILE_VARIABLES_H
#define BTI_FILE_VARIABLES_H

#include <berth/file.h>

/* values[i]: on the variable's device, computed, the tensor of its name. INVALID_ARGUMENT, with the differences: a tensor is missing, has another shape or dtype, or is no variable's.
 * `what`, `mend`: as of bti_differences. `beside`: names that begin so are others' tensors; NULL: there are none. */
bt_status bti_variables_read(const bt_tensors *file, const char *what, const char *mend, bt_shared *const *variables,
                             const char *const *names, int count, const char *beside, bt_array **values);

#endif
