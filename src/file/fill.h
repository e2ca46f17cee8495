/* A new model's variables take the values of a file. */
#ifndef BTI_FILE_FILL_H
#define BTI_FILE_FILL_H

#include <berth/nn.h>

#include "base/str.h"
#include "file/tensors.h"

/* The elements of the largest tensor; 1 at least. */
bt_status bti_most_elements(const bt_tensors *file, int64_t *most);
/* Each variable of the tree becomes a new one with the value, dtype included, of the tensor that `name` gives for its path; two of one tensor are tied. INVALID_ARGUMENT: the file lacks a tensor (but of integers
 * of a state), has one more, or one of another shape; all are listed. */
bt_status bti_fill_model(bt_layer *model, const bt_tensors *file, const char *(*name)(void *data, const char *path),
                         void *data);

/* --- differences ---------------------------------------------------------------------------------------------------- */

/* What does not fit, as a text: "; missing in the file: "a", "b"". */
typedef struct bti_differences {
    const char *what; /* what the file does not fit; NULL: "model" */
    const char *mend; /* what to do, at the end of the error; NULL: nothing is said */
    bti_str missing, extra, different;
    int missing_count, extra_count, different_count;
} bti_differences;

void bti_add_missing(bti_differences *d, const char *name);
void bti_add_extra(bti_differences *d, const char *name);
/* Whether the tensor has the value's dtype, with `cast` any floating one for another, and its shape. `turned`: the file's axes are in the opposite order. */
bool bti_tensor_fits(const bti_tensor *tensor, bool turned, bool cast, bt_array *value);
void bti_add_different(bti_differences *d, const char *name, const bti_tensor *tensor, bool turned, bt_array *value);
/* BT_OK without differences; frees. After another error (`before`) it returns that. */
bt_status bti_differences_end(bti_differences *d, const char *path, bt_status before);

#endif
