/* .npz and .pt: any bytes are an archive, or are refused with a reason. */
#include "fuzz_archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_archive(fuzz_file(data, size));
    return 0;
}
