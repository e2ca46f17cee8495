/* Compiled objects: any bytes are placed for one machine or the other, or are refused with a reason. Nothing of them is run. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/cpu/compiled/object.h"

static void check(const uint8_t *data, size_t size, bti_target target) {
    static const char *const names[] = {"bti_run", "bti_part", "bti_finish"};
    void *functions[3];
    bti_code_object object = {0};
    bt_status status = bti_object_load(data, size, target, names, 3, functions, &object);
    if (status != BT_OK) {
        if (object.memory || !strstr(bt_error_text(), "object: ")) abort();
        return;
    }
    for (int i = 0; i < 3; i++) {
        uintptr_t at = (uintptr_t)functions[i], from = (uintptr_t)object.memory;
        if (at && (at < from || at >= from + object.bytes)) abort();
    }
    bti_object_free(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check(data, size, BTI_LLVM_AVX512);
    check(data, size, BTI_LLVM_NEON);
    bt_error_clear();
    return 0;
}
