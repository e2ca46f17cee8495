/* The index of safetensors in shards: any JSON, or what is none. The shards are missing. */
#include "fuzz_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    BT_SCOPE {
        bt_tensors *tensors;
        if (bt_tensors_open(fuzz_file(data, size), &tensors) == BT_OK)
            for (int i = 0; i < bt_tensors_count(tensors); i++) {
                bt_array *x = bt_tensors_get(tensors, bt_tensors_name(tensors, i));
                if (bt_block(x) != BT_OK && !*bt_error_text()) abort();
            }
        bt_tensors_close(tensors);
    }
    bt_error_clear();
    return 0;
}
