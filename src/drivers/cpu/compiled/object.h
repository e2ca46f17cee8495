/* The loader of compiled code: an ELF object in memory is placed, relocated and made executable. */
#ifndef BTI_DRIVERS_CPU_COMPILED_OBJECT_H
#define BTI_DRIVERS_CPU_COMPILED_OBJECT_H

#include "base/error.h"
#include "launch/functions.h"

typedef struct bti_code_object {
    unsigned char *memory; /* code, then constants; never writable once loaded */
    size_t bytes;
} bti_code_object;

/* Places the code of an ELF64 object for the target's machine and sets functions[i] to the address of the function names[i], or to
 * NULL if the object has none. The only undefined symbols that are resolved are memcpy, memmove and memset. The bytes may be
 * arbitrary, and may be freed after the call. DATA_LOSS: they are not an object that is supported, with the offset of the fault;
 * INTERNAL: an undefined function, with its name; RESOURCE_EXHAUSTED; UNAVAILABLE: the system does not allow new code. Any thread. */
bt_status bti_object_load(const void *bytes, size_t size, bti_target target, const char *const *names, int count,
                          void **functions, bti_code_object *object);
/* None of its code may be running. An object that was never loaded (all 0) is fine. */
void bti_object_free(bti_code_object *object);

/* One relocation: writes `value` (symbol + addend) to `at`, from where `room` bytes are left, as relocation `type` of aarch64 or of
 * x86-64 says; the code will run where it is. NULL, or the fault as a static text. */
const char *bti_relocate(bool aarch64, uint32_t type, unsigned char *at, size_t room, uint64_t value);

#endif
