/* BSON as BSON.jl writes it: arrays by name, and a model of Flux's, which can be applied or says why not. The bytes begin with the length of all of them, as other lengths are refused at once. */
#include <string.h>

#include "fuzz_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t bytes[1 << 16];
    if (size < 5 || size > sizeof bytes) return 0;
    memcpy(bytes, data, size);
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(size >> 8 * i);
    const char *path = fuzz_file(bytes, size);
    fuzz_archive(path);
    BT_SCOPE {
        bt_layer *model = bt_model_open(path, NULL);
        if (bt_layer_status(model) != BT_OK && !*bt_error_text()) abort();
        if (bt_layer_status(model) == BT_OK) {
            char *summary = bt_summary(model);
            bt_free(summary);
            if (bt_save_bson("/dev/null/none", "m", model) == BT_OK) abort();
        }
    }
    bt_error_clear();
    return 0;
}
