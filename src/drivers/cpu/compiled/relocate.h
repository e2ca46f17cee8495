/* One relocation of an ELF object. */
#ifndef BTI_DRIVERS_RELOCATE_H
#define BTI_DRIVERS_RELOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes `value` (symbol + addend) in the way of relocation `type` of aarch64, else of x86-64, to `at`, from where `room` bytes
 * are left; the code will run where it is. NULL, or why not (a static text). */
const char *bti_relocate(bool aarch64, uint32_t type, unsigned char *at, size_t room, uint64_t value);

#endif
