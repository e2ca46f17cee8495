#include "drivers/cpu/compiled/object.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/quote.h"
#include "drivers/cpu/compiled/relocate.h"

#define LARGEST ((size_t)16 << 20) /* bytes of code and constants; relative jumps reach all of it */
#define LARGEST_ALIGNMENT 4096
#define NOT_PLACED SIZE_MAX

/* LLVM may make loops into calls of these; each is reached over a jump of our own, as it may be far away. */
static const struct {
    const char *name;
    void *function;
} known[] = {{"memcpy", (void *)memcpy}, {"memmove", (void *)memmove}, {"memset", (void *)memset}};
enum { KNOWN = sizeof known / sizeof *known, STUB_BYTES = 16, STUB_ADDRESS_AT = 8 };

typedef struct reader {
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
} reader;

__attribute__((format(printf, 2, 3))) static bt_status refuse(size_t at, const char *format, ...) {
    char text[200];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    return bti_fail(BT_DATA_LOSS, "object: byte %zu: %s", at, text);
}

static size_t round_up(size_t value, size_t to) { return (value + to - 1) & ~(to - 1); }

/* --- reading ------------------------------------------------------------------------------------------------------ */

static size_t header_at(const reader *of, size_t section) { return of->headers_at + section * sizeof(Elf64_Shdr); }

static Elf64_Shdr header(const reader *of, size_t section) {
    Elf64_Shdr read;
    memcpy(&read, of->bytes + header_at(of, section), sizeof read);
    return read;
}

/* A section of the file whose bytes are all there; of a table, whose entries have that size. */
static bt_status checked_header(const reader *of, size_t section, uint32_t type, size_t entry, Elf64_Shdr *read) {
    if (section >= of->section_count) return refuse(of->headers_at, "section %zu is not there", section);
    *read = header(of, section);
    size_t at = header_at(of, section);
    if (read->sh_type != type) return refuse(at, "section %zu is of type %u, not %u", section, read->sh_type, type);
    if (read->sh_offset > of->size || read->sh_size > of->size - read->sh_offset)
        return refuse(at, "section %zu ends past the end", section);
    if (entry && (read->sh_entsize != entry || read->sh_size % entry))
        return refuse(at, "section %zu has entries of a wrong size", section);
    return BT_OK;
}

static bt_status text_in(const reader *of, const Elf64_Shdr *strings, size_t offset, const char **text) {
    if (offset >= strings->sh_size) return refuse(strings->sh_offset, "no text at %zu of the names", offset);
    *text = (const char *)of->bytes + strings->sh_offset + offset;
    if (!memchr(*text, '\0', strings->sh_size - offset))
        return refuse(strings->sh_offset + offset, "a name without an end");
    return BT_OK;
}

static bt_status read_file_header(reader *of, bti_target target) {
    Elf64_Ehdr file;
    if (of->size < sizeof file) return refuse(of->size, "too short for an ELF object");
    memcpy(&file, of->bytes, sizeof file);
    of->aarch64 = target == BTI_LLVM_NEON;
    if (memcmp(file.e_ident, ELFMAG, SELFMAG) || file.e_ident[EI_CLASS] != ELFCLASS64 ||
        file.e_ident[EI_DATA] != ELFDATA2LSB || file.e_type != ET_REL)
        return refuse(0, "not a 64-bit ELF object");
    if (file.e_machine != (of->aarch64 ? EM_AARCH64 : EM_X86_64))
        return refuse(offsetof(Elf64_Ehdr, e_machine), "for machine %d", file.e_machine);
    if (file.e_shentsize != sizeof(Elf64_Shdr) || file.e_shoff > of->size ||
        file.e_shnum > (of->size - file.e_shoff) / sizeof(Elf64_Shdr))
        return refuse(offsetof(Elf64_Ehdr, e_shoff), "the table of sections ends past the end");
    of->headers_at = file.e_shoff;
    of->section_count = file.e_shnum;
    return checked_header(of, file.e_shstrndx, SHT_STRTAB, 0, &of->section_names);
}

static bt_status find_symbols(reader *of) {
    for (size_t s = 0; s < of->section_count; s++) {
        if (header(of, s).sh_type != SHT_SYMTAB) continue;
        if (of->symbols_at) return refuse(header_at(of, s), "two tables of symbols");
        BTI_TRY(checked_header(of, s, SHT_SYMTAB, sizeof(Elf64_Sym), &of->symbols));
        BTI_TRY(checked_header(of, of->symbols.sh_link, SHT_STRTAB, 0, &of->strings));
        of->symbols_at = header_at(of, s);
    }
    return of->symbols_at ? BT_OK : refuse(of->headers_at, "no table of symbols");
}

/* --- placing ------------------------------------------------------------------------------------------------------ */

/* Code and constants are; what can be written is not, nor what tells how to unwind. */
static bt_status is_placed(const reader *of, const Elf64_Shdr *section, bool code, bool *placed) {
    const char *name;
    *placed = section->sh_type == SHT_PROGBITS && section->sh_flags & SHF_ALLOC && section->sh_size > 0 &&
              !(section->sh_flags & (SHF_WRITE | SHF_TLS | SHF_COMPRESSED)) &&
              code == !!(section->sh_flags & SHF_EXECINSTR);
    if (!*placed) return BT_OK;
    BTI_TRY(text_in(of, &of->section_names, section->sh_name, &name));
    *placed = strcmp(name, ".eh_frame") != 0;
    return BT_OK;
}

static bt_status place_all(reader *of, bool code, size_t *end) {
    for (size_t s = 0; s < of->section_count; s++) {
        Elf64_Shdr section = header(of, s);
        bool placed;
        BTI_TRY(is_placed(of, &section, code, &placed));
        if (!placed) continue;
        BTI_TRY(checked_header(of, s, SHT_PROGBITS, 0, &section));
        size_t alignment = section.sh_addralign ? section.sh_addralign : 1;
        if (alignment & (alignment - 1) || alignment > LARGEST_ALIGNMENT)
            return refuse(header_at(of, s), "section %zu wants alignment %zu", s, alignment);
        *end = round_up(*end, alignment);
        if (section.sh_size > LARGEST || *end > LARGEST - section.sh_size)
            return refuse(header_at(of, s), "more than %zu bytes to place", LARGEST);
        of->place[s] = *end;
        *end += section.sh_size;
    }
    return BT_OK;
}

static bt_status lay_out(reader *of) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    of->place = bti_alloc(of->section_count * sizeof *of->place);
    if (!of->place) return bti_fail(BT_RESOURCE_EXHAUSTED, "out of host memory for compiled code");
    for (size_t s = 0; s < of->section_count; s++) of->place[s] = NOT_PLACED;
    BTI_TRY(place_all(of, true, &of->total));
    of->stubs_at = round_up(of->total, STUB_BYTES);
    of->code_bytes = of->total = round_up(of->stubs_at + KNOWN * STUB_BYTES, page);
    BTI_TRY(place_all(of, false, &of->total));
    of->total = round_up(of->total, page);
    return BT_OK;
}

/* jmp *[rip + 2]; ldr x16, [pc + 8] and br x16: to the address in the stub's second half. */
static void write_stubs(const reader *of) {
    static const unsigned char x86[STUB_ADDRESS_AT] = {0xff, 0x25, 2, 0, 0, 0};
    static const unsigned char aarch64[STUB_ADDRESS_AT] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6};
    for (int i = 0; i < KNOWN; i++) {
        unsigned char *stub = of->memory + of->stubs_at + i * STUB_BYTES;
        memcpy(stub, of->aarch64 ? aarch64 : x86, STUB_ADDRESS_AT);
        memcpy(stub + STUB_ADDRESS_AT, &known[i].function, sizeof known[i].function);
    }
}

static bt_status copy_in(reader *of) {
    void *memory = mmap(NULL, of->total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return bti_fail(BT_RESOURCE_EXHAUSTED, "no %zu bytes for compiled code: %s", of->total, strerror(errno));
    of->memory = memory;
    for (size_t s = 0; s < of->section_count; s++) {
        if (of->place[s] == NOT_PLACED) continue;
        Elf64_Shdr section = header(of, s);
        memcpy(of->memory + of->place[s], of->bytes + section.sh_offset, section.sh_size);
    }
    write_stubs(of);
    return BT_OK;
}

/* --- symbols and relocations -------------------------------------------------------------------------------------- */

static size_t symbol_count(const reader *of) { return of->symbols.sh_size / sizeof(Elf64_Sym); }

static Elf64_Sym symbol(const reader *of, size_t index, size_t *at) {
    Elf64_Sym read;
    *at = of->symbols.sh_offset + index * sizeof read;
    memcpy(&read, of->bytes + *at, sizeof read);
    return read;
}

static bt_status known_address(const reader *of, const Elf64_Sym *wanted, uint64_t *address) {
    const char *name;
    BTI_TRY(text_in(of, &of->strings, wanted->st_name, &name));
    for (int i = 0; i < KNOWN; i++) {
        if (strcmp(name, known[i].name)) continue;
        *address = (uintptr_t)of->memory + of->stubs_at + (size_t)i * STUB_BYTES;
        return BT_OK;
    }
    return bti_fail(BT_INTERNAL, "object: it needs \"%s\", which is not here", bti_quote(name).text);
}

static bt_status address_of(const reader *of, size_t index, uint64_t *address) {
    size_t at;
    if (index == 0 || index >= symbol_count(of)) return refuse(of->symbols_at, "symbol %zu is not there", index);
    Elf64_Sym wanted = symbol(of, index, &at);
    if (wanted.st_shndx == SHN_UNDEF) return known_address(of, &wanted, address);
    if (wanted.st_shndx >= of->section_count || of->place[wanted.st_shndx] == NOT_PLACED)
        return refuse(at, "symbol %zu lies in section %d, which is not placed", index, wanted.st_shndx);
    if (wanted.st_value > header(of, wanted.st_shndx).sh_size)
        return refuse(at, "symbol %zu lies past its section", index);
    *address = (uintptr_t)of->memory + of->place[wanted.st_shndx] + wanted.st_value;
    return BT_OK;
}

static bt_status relocate_section(const reader *of, size_t s) {
    Elf64_Shdr list;
    BTI_TRY(checked_header(of, s, SHT_RELA, sizeof(Elf64_Rela), &list));
    if (list.sh_info >= of->section_count) return refuse(header_at(of, s), "relocations of no section");
    if (of->place[list.sh_info] == NOT_PLACED) return BT_OK;
    size_t bytes = header(of, list.sh_info).sh_size;
    for (size_t at = list.sh_offset; at < list.sh_offset + list.sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela change;
        uint64_t address;
        memcpy(&change, of->bytes + at, sizeof change);
        if (change.r_offset > bytes) return refuse(at, "a relocation past the end of its section");
        BTI_TRY(address_of(of, ELF64_R_SYM(change.r_info), &address));
        const char *fault = bti_relocate(of->aarch64, (uint32_t)ELF64_R_TYPE(change.r_info),
                                         of->memory + of->place[list.sh_info] + change.r_offset,
                                         bytes - change.r_offset, address + (uint64_t)change.r_addend);
        if (fault) return refuse(at, "%s (type %u)", fault, (unsigned)ELF64_R_TYPE(change.r_info));
    }
    return BT_OK;
}

static bt_status relocate_all(const reader *of) {
    for (size_t s = 0; s < of->section_count; s++) {
        uint32_t type = header(of, s).sh_type;
        if (type == SHT_REL) return refuse(header_at(of, s), "relocations without addends");
        if (type == SHT_RELA) BTI_TRY(relocate_section(of, s));
    }
    return BT_OK;
}

static bt_status find_functions(const reader *of, const char *const *names, int count, void **functions) {
    for (int n = 0; n < count; n++) functions[n] = NULL;
    for (size_t i = 1; i < symbol_count(of); i++) {
        size_t at;
        Elf64_Sym found = symbol(of, i, &at);
        const char *name;
        uint64_t address;
        if (ELF64_ST_TYPE(found.st_info) != STT_FUNC || found.st_shndx == SHN_UNDEF) continue;
        BTI_TRY(text_in(of, &of->strings, found.st_name, &name));
        BTI_TRY(address_of(of, i, &address));
        if (address >= (uintptr_t)of->memory + of->stubs_at) return refuse(at, "function %zu is not in code", i);
        for (int n = 0; n < count; n++)
            if (!strcmp(name, names[n])) functions[n] = (void *)(uintptr_t)address;
    }
    return BT_OK;
}

static bt_status protect(const reader *of) {
    if (mprotect(of->memory, of->code_bytes, PROT_READ | PROT_EXEC) ||
        (of->total > of->code_bytes && mprotect(of->memory + of->code_bytes, of->total - of->code_bytes, PROT_READ)))
        return bti_fail(BT_UNAVAILABLE, "the system lets no new code run: %s", strerror(errno));
    __builtin___clear_cache((char *)of->memory, (char *)of->memory + of->code_bytes);
    return BT_OK;
}

bt_status bti_object_load(const void *bytes, size_t size, bti_target target, const char *const *names, int count,
                          void **functions, bti_object *object) {
    reader of = {.bytes = bytes, .size = size};
    bt_status status;
    BTI_TRY_OR(read_file_header(&of, target), end);
    BTI_TRY_OR(find_symbols(&of), end);
    BTI_TRY_OR(lay_out(&of), end);
    BTI_TRY_OR(copy_in(&of), end);
    BTI_TRY_OR(relocate_all(&of), end);
    BTI_TRY_OR(find_functions(&of, names, count, functions), end);
    BTI_TRY_OR(protect(&of), end);
    *object = (bti_object){of.memory, of.total};
    of.memory = NULL;
end:
    if (of.memory) munmap(of.memory, of.total);
    bti_free(of.place);
    return status;
}

void bti_object_free(bti_object *object) {
    if (object->memory) munmap(object->memory, object->bytes);
    *object = (bti_object){0};
}
