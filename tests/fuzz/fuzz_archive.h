/* An archive of named arrays: all of it can be read, or it says why not. */
#ifndef BERTH_TESTS_FUZZ_FUZZ_ARCHIVE_H
#define BERTH_TESTS_FUZZ_FUZZ_ARCHIVE_H

#include "fuzz_file.h"

/* Arrays of more elements come from broadcasts, which take no memory until they are read. */
enum { FUZZ_MOST_ELEMENTS = 1 << 17 };

static inline void fuzz_archive(const char *path) {
    BT_SCOPE {
        bt_tensors *tensors;
        bt_status status = bt_tensors_open(path, &tensors);
        if (status != BT_OK && status != BT_DATA_LOSS && status != BT_UNIMPLEMENTED) abort();
        if (status != BT_OK && !*bt_error_text()) abort();
        for (int i = 0; status == BT_OK && i < bt_tensors_count(tensors); i++)
            BT_SCOPE {
                const char *name = bt_tensors_name(tensors, i);
                bt_array *x = bt_tensors_get(tensors, name);
                if (bt_peek_status(x) != BT_OK || bt_count(x) <= FUZZ_MOST_ELEMENTS) fuzz_read(x);
                (void)bt_tensors_metadata(tensors, name);
                bt_tensor_info info = BT_TENSOR_INFO_INIT;
                if (bt_tensors_describe(tensors, i, &info) == BT_OK && !*info.dtype_name && info.dtype < BT_DTYPE_COUNT)
                    abort();
            }
        bt_tensors_close(tensors);
    }
    bt_error_clear();
}

#endif
