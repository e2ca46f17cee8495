#include "file/variables.h"

#include <string.h>

#include "array/handle.h"
#include "base/quote.h"
#include "file/fill.h"

static bool is_beside(const char *name, const char *beside) { return beside && !strncmp(name, beside, strlen(beside)); }

static bt_status list_extra(const bt_tensors *file, const char *const *names, int count, const char *beside,
                            bti_differences *d) {
    bti_names own = {0};
    bool room = bti_names_make(&own, count);
    for (int i = 0; i < count && room; i++) own.names[i] = names[i];
    const char *twice = room ? bti_names_sort(&own) : NULL;
    bt_status status = room ? BT_OK : bti_no_memory();
    for (int i = 0; i < file->names.count && room && !twice; i++)
        if (!is_beside(file->names.names[i], beside) && bti_names_find(&own, file->names.names[i]) < 0)
            bti_add_extra(d, file->names.names[i]);
    if (twice) status = bti_fail(BT_FAILED_PRECONDITION, "two variables have the name \"%s\"", bti_quote(twice).text);
    bti_names_free(&own);
    return status;
}

static bt_status compare(const bt_tensors *file, const char *what, const char *mend, const char *const *names,
                         int count, const char *beside, bt_array *const *values) {
    bti_differences d = {.what = what, .mend = mend};
    bt_status status = list_extra(file, names, count, beside, &d);
    for (int i = 0; i < count && status == BT_OK; i++) {
        int index = bti_names_find(&file->names, names[i]);
        bti_tensor tensor;
        if (index < 0) {
            bti_add_missing(&d, names[i]);
            continue;
        }
        status = file->format->describe(file, index, &tensor);
        if (status == BT_OK && !bti_tensor_fits(&tensor, false, false, values[i]))
            bti_add_different(&d, names[i], &tensor, false, values[i]);
    }
    return bti_differences_end(&d, file->file.path, status);
}

bt_status bti_variables_read(const bt_tensors *file, const char *what, const char *mend, bt_shared *const *variables,
                             const char *const *names, int count, const char *beside, bt_array **values) {
    for (int i = 0; i < count; i++) {
        values[i] = bt_value(variables[i]);
        BTI_TRY(bti_fail_with(bti_array_error(values[i])));
    }
    BTI_TRY(compare(file, what, mend, names, count, beside, values));
    for (int i = 0; i < count; i++) {
        BT_ON(bt_device_long_name(bt_device_of(values[i])))
            values[i] = file->format->read(file, bti_names_find(&file->names, names[i]));
        BTI_TRY(bt_block(values[i]));
    }
    return BT_OK;
}
