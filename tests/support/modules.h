/* A shared object with remote functions (tests/modules/task_module.c), under other names. */
#ifndef BERTH_TESTS_SUPPORT_MODULES_H
#define BERTH_TESTS_SUPPORT_MODULES_H

#include "support/programs.h"

/* 0: it was copied. `changed`: with other bytes, behind all that the loader reads. */
static inline int copy_module(const char *to, bool changed) {
    static char bytes[1 << 20];
    FILE *from = fopen(BERTH_BUILD_DIR "/modules/task_module.so", "re"), *file = fopen(to, "we");
    size_t length = from ? fread(bytes, 1, sizeof bytes - 1, from) : 0;
    if (changed) bytes[length++] = 1;
    CHECK(file && length > 0 && fwrite(bytes, 1, length, file) == length);
    fclose(from);
    CHECK(fclose(file) == 0);
    return 0;
}

#endif
