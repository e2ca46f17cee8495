"""The public headers, read as they are written: comments above prototypes, sections, macros beside functions, structures of options."""
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Group:
    """Declarations without an empty line or a comment between them, and the comment above them."""
    comment: str
    section: int
    prototypes: dict = field(default_factory=dict)  # name -> text
    macros: dict = field(default_factory=dict)  # name -> (parameters, body)


def words(comment):
    """The paragraphs of a comment, or of none ("")."""
    lines = re.sub(r"^/\*|\*/$", "", comment.strip()).split("\n")
    text = "\n".join(re.sub(r"^ \* ?", "", line).strip() for line in lines)
    return [" ".join(part.split()) for part in re.split(r"\n{2,}", text) if part.strip()]


# A piece of a header at its top level. Bodies of functions, `extern "C"` and conditions are passed over.
PIECES = re.compile(r"""
    (?P<comment>^/\*.*?\*/) |
    (?P<struct>^typedef\ struct\ \w+\ \{.*?^\}\ \w+;) |
    (?P<type>^typedef\ [^;{(]*\([^;{]*;) |
    (?P<prototype>^BT_API\ [^;]*;) |
    (?P<macro>^\#define\ (?:[^\n]*\\\n)*[^\n]*) |
    (?P<blank>^\n)""", re.S | re.M | re.X)


class Header:
    def __init__(self, name):
        self.name = f"berth/{name}.h"
        opening, rest = (ROOT / f"include/berth/{name}.h").read_text().split("*/", 1)
        paragraphs = words(opening + "*/")
        self.title, _, more = paragraphs[0].removeprefix(f"berth/{name}.h: ").partition(". ")
        self.title = self.title.rstrip(".")
        self.paragraphs = [more] * bool(more) + paragraphs[1:]
        self.sections = [("", [])]  # (title, paragraphs)
        self.groups, self.structs, self.types, self.macros = [], {}, {}, {}
        self.read(rest)

    def read(self, text):
        group, comment = None, ""
        for piece in PIECES.finditer(text):
            kind, source = piece.lastgroup, piece.group()
            if kind == "comment":
                title = re.match(r"/\* --- (.*?) -{3,}", source)
                if title:
                    self.sections.append((title[1], words("/*" + source[title.end():])))
                elif text.startswith("\n\n", piece.end()):
                    self.sections[-1][1].extend(words(source))  # of all that follows
                else:
                    comment = source
                group = None
            elif kind == "struct":
                self.structs[re.search(r"(\w+);$", source)[1]] = source
                group, comment = None, ""
            elif kind == "type":
                self.types[re.search(r"(\w+)\(", source)[1]] = (" ".join(source.split()), " ".join(words(comment)))
            elif kind == "blank":
                group, comment = None, ""
            else:
                if group is None:
                    group = Group(comment, len(self.sections) - 1)
                    self.groups.append(group)
                    comment = ""
                self.declare(group, kind, source)

    def declare(self, group, kind, source):
        if kind == "prototype":
            group.prototypes[re.search(r"\b(bti?_\w+)\(", source)[1]] = source
            return
        match = re.match(r"#define (\w+)\(([^)]*)\)\s*(.*)", re.sub(r"\\\n\s*", "", source), re.S)
        if match:
            self.macros.setdefault(match[1], (match[2], match[3]))
            group.macros.setdefault(match[1], (match[2], match[3]))


def members(struct):
    """The members of a structure of options but for its size: their declarations and comments."""
    body = struct[struct.index("{") + 1:struct.rindex("}")]
    body = re.sub(r"\s*BTI_INITIALLY\(((?:[^()]|\([^()]*\))*)\)", "", body).replace("BTI_START", "")
    comment = r"/\*(?:(?!\*/).)*\*/"
    for above, member, behind in re.findall(rf"({comment}\s*)?([^;/]+?)\s*;[ \t]*({comment})?", body, re.S):
        member = " ".join(member.split())
        if member != "size_t size":
            yield member, " ".join(text for part in (above, behind) if part for text in words(part))
