#include "drivers/cpu/compiled/object.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/quote.h"

#define LARGEST ((size_t)16 << 20) /* bytes of code and constants; relative jumps reach all of it */
#define LARGEST_ALIGNMENT 4096
#define NOT_PLACED SIZE_MAX

/* LLVM may turn loops into calls of these. Each is reached through a stub, because it may be too far for a relative call. */
static const struct {
    const char *name;
    void *function;
} known[] = {{"memcpy", (void *)memcpy}, {"memmove", (void *)memmove}, {"memset", (void *)memset}};
enum { KNOWN = sizeof known / sizeof *known, STUB_BYTES = 16, STUB_ADDRESS_AT = 8 };

typedef struct object_reader {
    const unsigned char *bytes;
    size_t size;
    bool aarch64;
    size_t headers_at, section_count;
    Elf64_Shdr section_names, symbols, strings;
    size_t symbols_at;           /* its header */
    size_t *place;               /* of each section in the memory; NOT_PLACED */
    size_t stubs_at, code_bytes; /* code and stubs, whole pages */
    size_t total;
    unsigned char *memory;
} object_reader;

__attribute__((format(printf, 2, 3))) static bt_status fail_at(size_t at, const char *format, ...) {
    char text[200];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    return bti_fail(BT_DATA_LOSS, "object: byte %zu: %s", at, text);
}

static size_t round_up(size_t value, size_t to) { return (value + to - 1) & ~(to - 1); }

/* --- reading ------------------------------------------------------------------------------------------------------ */

static size_t header_at(const object_reader *of, size_t section) {
    return of->headers_at + section * sizeof(Elf64_Shdr);
}

static Elf64_Shdr section_header(const object_reader *of, size_t section) {
    Elf64_Shdr read;
    memcpy(&read, of->bytes + header_at(of, section), sizeof read);
    return read;
}

/* The header of a section that lies within the file; `entry`: the size of its entries, if it is a table. */
static bt_status checked_header(const object_reader *of, size_t section, uint32_t type, size_t entry,
                                Elf64_Shdr *read) {
    if (section >= of->section_count) return fail_at(of->headers_at, "there is no section %zu", section);
    *read = section_header(of, section);
    size_t at = header_at(of, section);
    if (read->sh_type != type) return fail_at(at, "section %zu is of type %u, not %u", section, read->sh_type, type);
    if (read->sh_offset > of->size || read->sh_size > of->size - read->sh_offset)
        return fail_at(at, "section %zu ends past the end", section);
    if (entry && (read->sh_entsize != entry || read->sh_size % entry))
        return fail_at(at, "section %zu has entries of a wrong size", section);
    return BT_OK;
}

static bt_status text_in(const object_reader *of, const Elf64_Shdr *strings, size_t offset, const char **text) {
    if (offset >= strings->sh_size) return fail_at(strings->sh_offset, "no text at %zu of the names", offset);
    *text = (const char *)of->bytes + strings->sh_offset + offset;
    if (!memchr(*text, '\0', strings->sh_size - offset))
        return fail_at(strings->sh_offset + offset, "a name without an end");
    return BT_OK;
}

static bt_status read_file_header(object_reader *of, bti_target target) {
    Elf64_Ehdr file;
    if (of->size < sizeof file) return fail_at(of->size, "too short for an ELF object");
    memcpy(&file, of->bytes, sizeof file);
    of->aarch64 = target == BTI_LLVM_NEON;
    if (memcmp(file.e_ident, ELFMAG, SELFMAG) || file.e_ident[EI_CLASS] != ELFCLASS64 ||
        file.e_ident[EI_DATA] != ELFDATA2LSB || file.e_type != ET_REL)
        return fail_at(0, "not a 64-bit ELF object");
    if (file.e_machine != (of->aarch64 ? EM_AARCH64 : EM_X86_64))
        return fail_at(offsetof(Elf64_Ehdr, e_machine), "for machine %d", file.e_machine);
    if (file.e_shentsize != sizeof(Elf64_Shdr) || file.e_shoff > of->size ||
        file.e_shnum > (of->size - file.e_shoff) / sizeof(Elf64_Shdr))
        return fail_at(offsetof(Elf64_Ehdr, e_shoff), "the table of sections ends past the end");
    of->headers_at = file.e_shoff;
    of->section_count = file.e_shnum;
    return checked_header(of, file.e_shstrndx, SHT_STRTAB, 0, &of->section_names);
}

static bt_status find_symbol_table(object_reader *of) {
    for (size_t s = 0; s < of->section_count; s++) {
        if (section_header(of, s).sh_type != SHT_SYMTAB) continue;
        if (of->symbols_at) return fail_at(header_at(of, s), "two tables of symbols");
        BTI_TRY(checked_header(of, s, SHT_SYMTAB, sizeof(Elf64_Sym), &of->symbols));
        BTI_TRY(checked_header(of, of->symbols.sh_link, SHT_STRTAB, 0, &of->strings));
        of->symbols_at = header_at(of, s);
    }
    return of->symbols_at ? BT_OK : fail_at(of->headers_at, "no table of symbols");
}

/* --- placing ------------------------------------------------------------------------------------------------------ */

/* Code and constants are placed; writable data and unwind tables are not. */
static bt_status is_placed(const object_reader *of, const Elf64_Shdr *section, bool code, bool *placed) {
    const char *name;
    *placed = section->sh_type == SHT_PROGBITS && section->sh_flags & SHF_ALLOC && section->sh_size > 0 &&
              !(section->sh_flags & (SHF_WRITE | SHF_TLS | SHF_COMPRESSED)) &&
              code == !!(section->sh_flags & SHF_EXECINSTR);
    if (!*placed) return BT_OK;
    BTI_TRY(text_in(of, &of->section_names, section->sh_name, &name));
    *placed = strcmp(name, ".eh_frame") != 0;
    return BT_OK;
}

static bt_status place_sections(object_reader *of, bool code, size_t *end) {
    for (size_t s = 0; s < of->section_count; s++) {
        Elf64_Shdr section = section_header(of, s);
        bool placed;
        BTI_TRY(is_placed(of, &section, code, &placed));
        if (!placed) continue;
        BTI_TRY(checked_header(of, s, SHT_PROGBITS, 0, &section));
        size_t alignment = section.sh_addralign ? section.sh_addralign : 1;
        if (alignment & (alignment - 1) || alignment > LARGEST_ALIGNMENT)
            return fail_at(header_at(of, s), "section %zu wants alignment %zu", s, alignment);
        *end = round_up(*end, alignment);
        if (section.sh_size > LARGEST || *end > LARGEST - section.sh_size)
            return fail_at(header_at(of, s), "more than %zu bytes to place", LARGEST);
        of->place[s] = *end;
        *end += section.sh_size;
    }
    return BT_OK;
}

static bt_status plan_layout(object_reader *of) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    of->place = bti_alloc(of->section_count * sizeof *of->place);
    if (!of->place) return bti_no_memory();
    for (size_t s = 0; s < of->section_count; s++) of->place[s] = NOT_PLACED;
    BTI_TRY(place_sections(of, true, &of->total));
    of->stubs_at = round_up(of->total, STUB_BYTES);
    of->code_bytes = of->total = round_up(of->stubs_at + KNOWN * STUB_BYTES, page);
    BTI_TRY(place_sections(of, false, &of->total));
    of->total = round_up(of->total, page);
    return BT_OK;
}

/* jmp *[rip + 2]; ldr x16, [pc + 8] and br x16: to the address in the stub's second half. */
static void write_stubs(const object_reader *of) {
    static const unsigned char x86[STUB_ADDRESS_AT] = {0xff, 0x25, 2, 0, 0, 0};
    static const unsigned char aarch64[STUB_ADDRESS_AT] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6};
    for (int i = 0; i < KNOWN; i++) {
        unsigned char *stub = of->memory + of->stubs_at + i * STUB_BYTES;
        memcpy(stub, of->aarch64 ? aarch64 : x86, STUB_ADDRESS_AT);
        memcpy(stub + STUB_ADDRESS_AT, &known[i].function, sizeof known[i].function);
    }
}

static bt_status copy_sections(object_reader *of) {
    void *memory = mmap(NULL, of->total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no %zu bytes for compiled code: %s", of->total, strerror(errno));
    of->memory = memory;
    for (size_t s = 0; s < of->section_count; s++) {
        if (of->place[s] == NOT_PLACED) continue;
        Elf64_Shdr section = section_header(of, s);
        memcpy(of->memory + of->place[s], of->bytes + section.sh_offset, section.sh_size);
    }
    write_stubs(of);
    return BT_OK;
}

/* --- one relocation ----------------------------------------------------------------------------------------------- */

static const char reloc_too_short[] = "a relocation past the end of its section";
static const char reloc_too_far[] = "a relocation's value does not fit";
static const char reloc_misaligned[] = "a relocation's value is not aligned";
static const char reloc_unknown[] = "a relocation of a type that is not known";

static bool fits_signed(int64_t value, int bits) {
    int64_t limit = INT64_C(1) << (bits - 1);
    return value >= -limit && value < limit;
}

static const char *write32(unsigned char *at, size_t room, int64_t value, bool fits_there) {
    uint32_t word = (uint32_t)value;
    if (room < sizeof word) return reloc_too_short;
    if (!fits_there) return reloc_too_far;
    memcpy(at, &word, sizeof word);
    return NULL;
}
static const char *write64(unsigned char *at, size_t room, uint64_t value) {
    if (room < sizeof value) return reloc_too_short;
    memcpy(at, &value, sizeof value);
    return NULL;
}

static const char *relocate_x86(uint32_t type, unsigned char *at, size_t room, uint64_t value) {
    int64_t distance = (int64_t)(value - (uintptr_t)at);
    switch (type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return write32(at, room, distance, fits_signed(distance, 32));
    case R_X86_64_32: return write32(at, room, (int64_t)value, value <= UINT32_MAX);
    case R_X86_64_32S: return write32(at, room, (int64_t)value, fits_signed((int64_t)value, 32));
    case R_X86_64_64: return write64(at, room, value);
    case R_X86_64_PC64: return write64(at, room, (uint64_t)distance);
    default: return reloc_unknown;
    }
}

/* Puts the low `bits` of the value into the instruction, from bit `low` on. */
static const char *write_field(unsigned char *at, size_t room, uint64_t value, int low, int bits) {
    uint32_t word, mask = ((UINT32_C(1) << bits) - 1) << low;
    if (room < sizeof word) return reloc_too_short;
    memcpy(&word, at, sizeof word);
    word = (word & ~mask) | ((uint32_t)(value << low) & mask);
    memcpy(at, &word, sizeof word);
    return NULL;
}

/* adr, adrp: 21 bits, the low two of them apart. */
static const char *write_adr(unsigned char *at, size_t room, int64_t value) {
    if (!fits_signed(value, 21)) return reloc_too_far;
    const char *fault = write_field(at, room, (uint64_t)value, 29, 2);
    return fault ? fault : write_field(at, room, (uint64_t)value >> 2, 5, 19);
}

static const char *write_low12(unsigned char *at, size_t room, uint64_t value, int scale) {
    if (value & ((UINT64_C(1) << scale) - 1)) return reloc_misaligned;
    return write_field(at, room, (value & 0xfff) >> scale, 10, 12);
}

static const char *relocate_aarch64(uint32_t type, unsigned char *at, size_t room, uint64_t value) {
    uint64_t place = (uintptr_t)at;
    int64_t distance = (int64_t)(value - place), pages = (int64_t)((value >> 12) - (place >> 12));
    switch (type) {
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
        if (distance & 3) return reloc_misaligned;
        return fits_signed(distance, 28) ? write_field(at, room, (uint64_t)distance >> 2, 0, 26) : reloc_too_far;
    case R_AARCH64_ADR_PREL_LO21: return write_adr(at, room, distance);
    case R_AARCH64_ADR_PREL_PG_HI21: return write_adr(at, room, pages);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return write_low12(at, room, value, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return write_low12(at, room, value, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return write_low12(at, room, value, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return write_low12(at, room, value, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return write_low12(at, room, value, 4);
    case R_AARCH64_PREL32: return write32(at, room, distance, fits_signed(distance, 32));
    case R_AARCH64_PREL64: return write64(at, room, (uint64_t)distance);
    case R_AARCH64_ABS64: return write64(at, room, value);
    default: return reloc_unknown;
    }
}

const char *bti_relocate(bool aarch64, uint32_t type, unsigned char *at, size_t room, uint64_t value) {
    return aarch64 ? relocate_aarch64(type, at, room, value) : relocate_x86(type, at, room, value);
}

/* --- symbols and relocations -------------------------------------------------------------------------------------- */

static size_t symbol_count(const object_reader *of) { return of->symbols.sh_size / sizeof(Elf64_Sym); }

static Elf64_Sym read_symbol(const object_reader *of, size_t index, size_t *at) {
    Elf64_Sym read;
    *at = of->symbols.sh_offset + index * sizeof read;
    memcpy(&read, of->bytes + *at, sizeof read);
    return read;
}

static bt_status stub_address(const object_reader *of, const Elf64_Sym *wanted, uint64_t *address) {
    const char *name;
    BTI_TRY(text_in(of, &of->strings, wanted->st_name, &name));
    for (int i = 0; i < KNOWN; i++) {
        if (strcmp(name, known[i].name)) continue;
        *address = (uintptr_t)of->memory + of->stubs_at + (size_t)i * STUB_BYTES;
        return BT_OK;
    }
    return bti_fail(BT_INTERNAL, "object: the function \"%s\" is not defined", bti_quote(name).text);
}

static bt_status symbol_address(const object_reader *of, size_t index, uint64_t *address) {
    size_t at;
    if (index == 0 || index >= symbol_count(of)) return fail_at(of->symbols_at, "there is no symbol %zu", index);
    Elf64_Sym wanted = read_symbol(of, index, &at);
    if (wanted.st_shndx == SHN_UNDEF) return stub_address(of, &wanted, address);
    if (wanted.st_shndx >= of->section_count || of->place[wanted.st_shndx] == NOT_PLACED)
        return fail_at(at, "symbol %zu lies in section %d, which is not placed", index, wanted.st_shndx);
    if (wanted.st_value > section_header(of, wanted.st_shndx).sh_size)
        return fail_at(at, "symbol %zu lies past its section", index);
    *address = (uintptr_t)of->memory + of->place[wanted.st_shndx] + wanted.st_value;
    return BT_OK;
}

static bt_status relocate_section(const object_reader *of, size_t s) {
    Elf64_Shdr list;
    BTI_TRY(checked_header(of, s, SHT_RELA, sizeof(Elf64_Rela), &list));
    if (list.sh_info >= of->section_count) return fail_at(header_at(of, s), "relocations of no section");
    if (of->place[list.sh_info] == NOT_PLACED) return BT_OK;
    size_t bytes = section_header(of, list.sh_info).sh_size;
    for (size_t at = list.sh_offset; at < list.sh_offset + list.sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela change;
        uint64_t address;
        memcpy(&change, of->bytes + at, sizeof change);
        if (change.r_offset > bytes) return fail_at(at, "a relocation past the end of its section");
        BTI_TRY(symbol_address(of, ELF64_R_SYM(change.r_info), &address));
        const char *fault = bti_relocate(of->aarch64, (uint32_t)ELF64_R_TYPE(change.r_info),
                                         of->memory + of->place[list.sh_info] + change.r_offset,
                                         bytes - change.r_offset, address + (uint64_t)change.r_addend);
        if (fault) return fail_at(at, "%s (type %u)", fault, (unsigned)ELF64_R_TYPE(change.r_info));
    }
    return BT_OK;
}

static bt_status relocate_sections(const object_reader *of) {
    for (size_t s = 0; s < of->section_count; s++) {
        uint32_t type = section_header(of, s).sh_type;
        if (type == SHT_REL) return fail_at(header_at(of, s), "relocations without addends");
        if (type == SHT_RELA) BTI_TRY(relocate_section(of, s));
    }
    return BT_OK;
}

static bt_status find_functions(const object_reader *of, const char *const *names, int count, void **functions) {
    for (int n = 0; n < count; n++) functions[n] = NULL;
    for (size_t i = 1; i < symbol_count(of); i++) {
        size_t at;
        Elf64_Sym found = read_symbol(of, i, &at);
        const char *name;
        uint64_t address;
        if (ELF64_ST_TYPE(found.st_info) != STT_FUNC || found.st_shndx == SHN_UNDEF) continue;
        BTI_TRY(text_in(of, &of->strings, found.st_name, &name));
        BTI_TRY(symbol_address(of, i, &address));
        if (address >= (uintptr_t)of->memory + of->stubs_at) return fail_at(at, "function %zu is not in code", i);
        for (int n = 0; n < count; n++)
            if (!strcmp(name, names[n])) functions[n] = (void *)(uintptr_t)address;
    }
    return BT_OK;
}

static bt_status make_executable(const object_reader *of) {
    if (mprotect(of->memory, of->code_bytes, PROT_READ | PROT_EXEC) ||
        (of->total > of->code_bytes && mprotect(of->memory + of->code_bytes, of->total - of->code_bytes, PROT_READ)))
        return bti_fail(BT_UNAVAILABLE, "the system lets no new code run: %s", strerror(errno));
    __builtin___clear_cache((char *)of->memory, (char *)of->memory + of->code_bytes);
    return BT_OK;
}

bt_status bti_object_load(const void *bytes, size_t size, bti_target target, const char *const *names, int count,
                          void **functions, bti_code_object *object) {
    object_reader of = {.bytes = bytes, .size = size};
    bt_status status;
    BTI_TRY_OR(read_file_header(&of, target), end);
    BTI_TRY_OR(find_symbol_table(&of), end);
    BTI_TRY_OR(plan_layout(&of), end);
    BTI_TRY_OR(copy_sections(&of), end);
    BTI_TRY_OR(relocate_sections(&of), end);
    BTI_TRY_OR(find_functions(&of, names, count, functions), end);
    BTI_TRY_OR(make_executable(&of), end);
    *object = (bti_code_object){of.memory, of.total};
    of.memory = NULL;
end:
    if (of.memory) munmap(of.memory, of.total);
    bti_free(of.place);
    return status;
}

void bti_object_free(bti_code_object *object) {
    if (object->memory) munmap(object->memory, object->bytes);
    *object = (bti_code_object){0};
}
