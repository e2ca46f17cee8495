"""A program as a file that a worker can open as a shared object: its functions are called by name there (BT_REMOTE), its main is not.

The loader refuses programs only because of one flag (DF_1_PIE). What else differs from a shared object would go wrong without a word, so it is looked for here: a fixed
address, variables of threads (their places are those of the first program of a process), and data of libraries that was copied into the program.
"""
import struct

MEND = "put its functions into a shared object and load that (bt_module_load)"
ET_DYN, PT_DYNAMIC, PT_LOAD, PT_TLS = 3, 2, 1, 7
DT_NULL, DT_NEEDED, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_FLAGS_1 = 0, 1, 5, 6, 7, 8, 0x6FFFFFFB
DF_1_PIE = 0x08000000
COPY_OF_MACHINE = {62: 5, 183: 1024}  # R_X86_64_COPY, R_AARCH64_COPY
MAY_BE_COPIED = {"stdin", "stdout", "stderr"}  # pointers that stay


class Refused(Exception):
    """Why a program cannot be opened by workers."""


class File:
    """A 64-bit little-endian ELF file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = bytearray(file.read())
        self.path = path
        if self.bytes[:6] != b"\x7fELF\x02\x01" or len(self.bytes) < 64:
            raise Refused(f"the program {path} is no 64-bit ELF file: {MEND}")
        self.type, self.machine = struct.unpack_from("<HH", self.bytes, 16)
        (at,) = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.bytes, at + i * size) for i in range(count)]
        self.dynamic = self.read_dynamic()

    def segment(self, kind):
        return next((s for s in self.segments if s[0] == kind), None)

    def place(self, address):
        """Where in the file something is that lies at an address."""
        for kind, _, offset, start, _, in_file, _, _ in self.segments:
            if kind == PT_LOAD and start <= address < start + in_file:
                return offset + address - start
        raise Refused(f"the program {self.path} is damaged: {MEND}")

    def read_dynamic(self):
        """(tag, value, place of the value) of each entry."""
        segment, found = self.segment(PT_DYNAMIC), []
        for at in range(segment[2], segment[2] + segment[5], 16) if segment else ():
            tag, value = struct.unpack_from("<qQ", self.bytes, at)
            if tag == DT_NULL:
                break
            found.append((tag, value, at + 8))
        return found

    def value(self, wanted):
        return next((value for tag, value, _ in self.dynamic if tag == wanted), 0)

    def text(self, offset):
        at = self.place(self.value(DT_STRTAB)) + offset
        return self.bytes[at:self.bytes.index(0, at)].decode(errors="replace")

    def copied(self):
        """Names of data of libraries that was copied into the program."""
        copy, size = COPY_OF_MACHINE.get(self.machine), self.value(DT_RELASZ)
        at = self.place(self.value(DT_RELA)) if size else 0
        for i in range(at, at + size, 24):
            _, info, _ = struct.unpack_from("<QQq", self.bytes, i)
            if info & 0xFFFFFFFF == copy:
                (name,) = struct.unpack_from("<I", self.bytes, self.place(self.value(DT_SYMTAB)) + (info >> 32) * 24)
                yield self.text(name)


def openable(path, library):
    """The bytes of a program without the flag; Refused."""
    file = File(path)
    if file.type != ET_DYN or not file.value(DT_FLAGS_1) & DF_1_PIE:
        raise Refused(f"the program {path} has a fixed address (it is not a PIE), so workers of Ray cannot open it: link it with -pie, or {MEND}")
    if file.segment(PT_TLS):
        raise Refused(f"the program {path} has variables of threads (_Thread_local), so workers of Ray cannot open it: {MEND}")
    if library not in (file.text(value) for tag, value, _ in file.dynamic if tag == DT_NEEDED):
        raise Refused(f"the program {path} is not linked with {library}, so workers of Ray cannot open it: {MEND}")
    copied = sorted(set(file.copied()) - MAY_BE_COPIED)
    if copied:
        raise Refused(f"the program {path} has copies of {', '.join(copied)}, which would not be those of its libraries in workers of Ray: "
                      f"compile it with -fPIC, or {MEND}")
    at = next(place for tag, _, place in file.dynamic if tag == DT_FLAGS_1)
    struct.pack_into("<Q", file.bytes, at, file.value(DT_FLAGS_1) & ~DF_1_PIE)
    return bytes(file.bytes)
