#include "drivers/cpu/compiled/relocate.h"

#include <elf.h>
#include <string.h>

static const char too_short[] = "a relocation past the end of its section";
static const char too_far[] = "a relocation's value does not fit";
static const char not_even[] = "a relocation's value is not aligned";
static const char unknown[] = "a relocation of a type that is not known";

static bool fits(int64_t value, int bits) {
    int64_t limit = INT64_C(1) << (bits - 1);
    return value >= -limit && value < limit;
}

static const char *write32(unsigned char *at, size_t room, int64_t value, bool fits_there) {
    uint32_t word = (uint32_t)value;
    if (room < sizeof word) return too_short;
    if (!fits_there) return too_far;
    memcpy(at, &word, sizeof word);
    return NULL;
}
static const char *write64(unsigned char *at, size_t room, uint64_t value) {
    if (room < sizeof value) return too_short;
    memcpy(at, &value, sizeof value);
    return NULL;
}

static const char *relocate_x86(uint32_t type, unsigned char *at, size_t room, uint64_t value) {
    int64_t distance = (int64_t)(value - (uintptr_t)at);
    switch (type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return write32(at, room, distance, fits(distance, 32));
    case R_X86_64_32: return write32(at, room, (int64_t)value, value <= UINT32_MAX);
    case R_X86_64_32S: return write32(at, room, (int64_t)value, fits((int64_t)value, 32));
    case R_X86_64_64: return write64(at, room, value);
    case R_X86_64_PC64: return write64(at, room, (uint64_t)distance);
    default: return unknown;
    }
}

/* Puts the low `bits` of the value into the instruction, from bit `low` on. */
static const char *write_field(unsigned char *at, size_t room, uint64_t value, int low, int bits) {
    uint32_t word, mask = ((UINT32_C(1) << bits) - 1) << low;
    if (room < sizeof word) return too_short;
    memcpy(&word, at, sizeof word);
    word = (word & ~mask) | ((uint32_t)(value << low) & mask);
    memcpy(at, &word, sizeof word);
    return NULL;
}

/* adr, adrp: 21 bits, the low two of them apart. */
static const char *write_adr(unsigned char *at, size_t room, int64_t value) {
    if (!fits(value, 21)) return too_far;
    const char *fault = write_field(at, room, (uint64_t)value, 29, 2);
    return fault ? fault : write_field(at, room, (uint64_t)value >> 2, 5, 19);
}

static const char *write_low12(unsigned char *at, size_t room, uint64_t value, int scale) {
    if (value & ((UINT64_C(1) << scale) - 1)) return not_even;
    return write_field(at, room, (value & 0xfff) >> scale, 10, 12);
}

static const char *relocate_aarch64(uint32_t type, unsigned char *at, size_t room, uint64_t value) {
    uint64_t place = (uintptr_t)at;
    int64_t distance = (int64_t)(value - place), pages = (int64_t)((value >> 12) - (place >> 12));
    switch (type) {
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        if (distance & 3) return not_even;
        return fits(distance, 28) ? write_field(at, room, (uint64_t)distance >> 2, 0, 26) : too_far;
    case R_AARCH64_ADR_PREL_LO21: return write_adr(at, room, distance);
    case R_AARCH64_ADR_PREL_PG_HI21: return write_adr(at, room, pages);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return write_low12(at, room, value, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return write_low12(at, room, value, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return write_low12(at, room, value, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return write_low12(at, room, value, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return write_low12(at, room, value, 4);
    case R_AARCH64_PREL32: return write32(at, room, distance, fits(distance, 32));
    case R_AARCH64_PREL64: return write64(at, room, (uint64_t)distance);
    case R_AARCH64_ABS64: return write64(at, room, value);
    default: return unknown;
    }
}

const char *bti_relocate(bool aarch64, uint32_t type, unsigned char *at, size_t room, uint64_t value) {
    return aarch64 ? relocate_aarch64(type, at, room, value) : relocate_x86(type, at, room, value);
}
