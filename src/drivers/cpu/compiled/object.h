/* Compiled code from an ELF object in memory: placed, relocated, made executable. */
#ifndef BTI_DRIVERS_OBJECT_H
#define BTI_DRIVERS_OBJECT_H

#include "base/error.h"
#include "launch/functions.h"

typedef struct bti_object {
    unsigned char *memory; /* code, then constants; never writable once loaded */
    size_t bytes;
} bti_object;

/* Places the code of an ELF64 object for the target's machine. functions[i] becomes the address of the function names[i], or
 * NULL where the object has none. Of what is undefined only memcpy, memmove and memset are known. The bytes may be anything
 * and may go after. DATA_LOSS: they are no object, or one that is not taken, with the byte where; INTERNAL: a function is
 * called that is not here, by its name; RESOURCE_EXHAUSTED; UNAVAILABLE: the system allows no new code. Any thread. */
bt_status bti_object_load(const void *bytes, size_t size, bti_target target, const char *const *names, int count,
                          void **functions, bti_object *object);
/* Nothing of it may be running. One that was never loaded (all 0) is fine. */
void bti_object_free(bti_object *object);

#endif
