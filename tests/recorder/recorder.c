/* Part of a second libberth that tests use instead of the first. It writes every program that a device is asked for to the file
 * BERTH_RECORDED, once per process. The linker redirects calls of bti_device_program here (--wrap). */
#include "support/recorded_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bt_status __real_bti_device_program(int id, const bti_program_source *source, void **program, bool *made);
bt_status __wrap_bti_device_program(int id, const bti_program_source *source, void **program, bool *made);

enum { KNOWN = 1 << 16 };

static bool is_new(const recorded_program *record) {
    static uint64_t known[KNOWN];
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *record; i++) hash = (hash ^ ((const unsigned char *)record)[i]) * 1099511628211u;
    for (uint64_t i = hash;; i++) {
        uint64_t *slot = &known[i % KNOWN];
        if (*slot == hash) return false;
        if (*slot) continue;
        *slot = hash;
        return true;
    }
}

static void record_program(const bti_program_source *source) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static recorded_program record;
    const char *path = getenv("BERTH_RECORDED");
    if (!path) return;
    pthread_mutex_lock(&lock);
    memset(&record, 0, sizeof record);
    record.op = source->op;
    record.dtype_count = source->dtype_count;
    for (int i = 0; i < source->dtype_count; i++) record.dtypes[i] = source->dtypes[i];
    record.made = source->made;
    record.is_kernel = source->kernel != NULL;
    if (source->kernel) record.kernel = *source->kernel;
    int file = is_new(&record) ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (file >= 0) {
        if (write(file, &record, sizeof record) != (ssize_t)sizeof record) abort();
        close(file);
    }
    pthread_mutex_unlock(&lock);
}

bt_status __wrap_bti_device_program(int id, const bti_program_source *source, void **program, bool *made) {
    record_program(source);
    return __real_bti_device_program(id, source, program, made);
}
