/* safetensors: any bytes are a file whose tensors can all be read, or are refused with a reason. Those of other formats are of no
 * interest here. */
#include <string.h>

#include "fuzz_file.h"

static void read_all(bt_tensors *tensors, size_t size) {
    size_t bytes = 0;
    for (int i = 0; i < bt_tensors_count(tensors); i++) {
        const char *name = bt_tensors_name(tensors, i);
        bt_array *x = bt_tensors_get(tensors, name);
        fuzz_read(x);
        if (bt_peek_status(x) == BT_OK) bytes += (size_t)bt_count(x) * bt_dtype_size(bt_dtype_of(x));
    }
    if (bytes > size && !strcmp(bt_tensors_format(tensors), "safetensors")) abort();
    (void)bt_tensors_metadata(tensors, "cases");
    fuzz_read(bt_tensors_get(tensors, "not there"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    BT_SCOPE {
        bt_tensors *tensors;
        bt_status status = bt_tensors_open(path, &tensors);
        if (status == BT_OK)
            read_all(tensors, size);
        else if (status != BT_UNIMPLEMENTED && (status != BT_DATA_LOSS || !strstr(bt_error_text(), ": byte ")))
            abort();
        bt_tensors_close(tensors);
    }
    bt_error_clear();
    return 0;
}
