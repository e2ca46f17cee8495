/* The pickle of a .pt file: any bytes, in an archive that is right (its checksums too) and has storages of 64 bytes under the keys 0 to 3. */
#include "file/zip.h"
#include "fuzz_archive.h"

static bt_status add_member(bti_zip_writer *zip, const char *name, const void *data, size_t bytes) {
    bt_status status = bti_zip_writer_begin(zip, name, false);
    if (status == BT_OK) status = bti_zip_writer_add(zip, data, bytes);
    return status == BT_OK ? bti_zip_writer_end(zip) : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned char storage[64] = {1, 0, 1, 1};
    static const char *const names[] = {"a/data/0", "a/data/1", "a/data/2", "a/data/3"};
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET)) abort();
    bti_writer writer = {.fd = fd};
    bti_zip_writer *zip = bti_zip_writer_new(&writer);
    bt_status status = add_member(zip, "a/data.pkl", data, size);
    for (int i = 0; i < 4 && status == BT_OK; i++) status = add_member(zip, names[i], storage, sizeof storage);
    if (bti_zip_writer_finish(zip, status) != BT_OK) abort();
    fuzz_archive(path);
    return 0;
}
