/* Functions as StableHLO modules in files. */
#include "array/handle.h"
#include "base/str.h"
#include "file/io.h"
#include "function/stablehlo.h"

#include <berth/file.h>

bt_status bt_function_export(const bt_function *function, const char *path) {
    BTI_CALL("bt_function_export");
    bti_str text = {0};
    bti_writer writer;
    BTI_TRY(bti_handle_check(BTI_OWNED_FUNCTION, function, "bt_function_export"));
    if (!path) return bti_fail(BT_INVALID_ARGUMENT, "the path is NULL");
    bt_status status = bti_function_stablehlo(function, &text);
    if (status == BT_OK) {
        status = bti_writer_open(&writer, path);
        if (status == BT_OK) status = bti_writer_add(&writer, text.text, text.length);
        if (status == BT_OK) status = bti_writer_commit(&writer);
        bti_writer_discard(&writer);
    }
    bti_str_free(&text);
    return status;
}
