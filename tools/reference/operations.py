"""What the reference says of each public operation: its row in names.def, its prototype and comments, the primitive of its name, its example."""
import re
from dataclasses import dataclass, field

from headers import ROOT, Header, members, words

FIRST = ["array", "ops", "matrices", "linalg", "nn", "layers", "windows", "attention", "losses", "random", "control", "custom"]  # in the reference; others follow
DTYPES = {"BTI_ANY": "any", "BTI_NUMBER": "number", "BTI_FLOAT": "float", "BTI_BITS": "bits", "BTI_COMPARE": "any to bool", "BTI_OWN": "own"}
RANGE = r"\b(bt_\w+) (?:to|and) (bt_\w+): "
NEIGHBOURS = 4  # in SEE ALSO, before and after it in its section


class Mistake(Exception):
    """What is wrong with a header or an example, for its author."""


@dataclass
class Primitive:
    name: str
    family: str
    dtypes: str
    gradient: str
    doc: str


@dataclass
class Operation:
    name: str
    log_name: str
    header: str = ""
    section: str = ""
    summary: str = ""
    synopsis: list = field(default_factory=list)  # declarations, and how macros are called
    paragraphs: list = field(default_factory=list)
    options: list = field(default_factory=list)  # (declaration, comment)
    types: list = field(default_factory=list)  # the same of functions that it is given
    primitive: Primitive = None
    see: list = field(default_factory=list)
    example: object = None


def read_names():
    rows = re.findall(r'^BTI_NAME\((\w+), "(\w+)"', (ROOT / "src/array/names.def").read_text(), re.M)
    return {name: Operation(name, log_name) for name, log_name in rows}


def read_primitives():
    rows = re.findall(r'^BTI_OP\((\w+), BTI_(\w+), -?\d+, \w+, (\w+), \w+, (\w+), .*"(.*)"\)$', (ROOT / "src/ir/ops.def").read_text(), re.M)
    return {name: Primitive(name, family.lower(), DTYPES[dtypes], gradient, doc) for name, family, dtypes, gradient, doc in rows}


def first_sentence(text):
    """Without its last part where it is long."""
    end = re.search(r"(?<=[^.])\.(?=\s|$)", text)
    sentence = text[:end.start()] if end else text
    for stop in ("; ", ": ", ", "):
        if len(sentence) > 110 and stop in sentence[:110]:
            sentence = sentence[:sentence.rindex(stop, 0, 110)]
    return sentence


def ranges(comment, name, order):
    """The sentences of a comment that speak of `name` as one of several: `bt_exp to bt_erfinv: floats.`"""
    for sentence, first, last in re.findall(rf"({RANGE}[^.]*\.)", " ".join(words(comment))):
        if first in order and last in order and order.index(first) <= order.index(name) <= order.index(last):
            yield sentence


def call_forms(operation, function, prototype, parameters, body, header):
    """How the macro is called where that differs from the function, its options, and which operands may be numbers."""
    names = [re.search(r"(\w+)(?:\[\d+\])?$", part)[1] for part in prototype[prototype.index("(") + 1:-2].split(", ")]
    inner = re.search(r"(BTI_[A-Z]+)\((?:\w+, )?__VA_ARGS__, \)", body)
    if inner:  # options by name: of the macro behind it, which puts them into a structure
        given, value = header.macros[inner[1]]
        given = [name for name in given.split(", ") if name not in ("function", "...")]
        struct = re.search(r"BTI_VALUE\((\w+),", value)
        struct = struct or re.search(r"BTI_OPTIONS\((\w+),", header.macros[re.search(r"\b(BT_[A-Z]+)\(__VA_ARGS__", value)[1]][1])
        operation.options = list(members(header.structs[struct[1]]))
        operation.paragraphs.append(f"Without the macro: ({function})({', '.join(name.replace('options', '&options') for name in names)}).")
        numbers = [names[given.index(name)] for name in re.findall(r"BTI_OPERAND\((\w+)\)", value)]
        return [f"{operation.name}({', '.join(names[:len(given)])}, .option = value...);"], numbers
    if "BT_SHAPE(__VA_ARGS__)" in body or "BT_AXES(__VA_ARGS__)" in body:
        return [f"{operation.name}({parameters.replace('...', 'sizes...' if 'BT_SHAPE' in body else 'axes...')});"], []
    return [], re.findall(r"BTI_OPERAND\((\w+)\)", body)


def describe(operation, header, group, function, order, primitives):
    """Fills the operation from the group of declarations that its function or its macro is in."""
    first = next(iter({**group.prototypes, **group.macros}))
    own = words(group.comment) if first in (function, operation.name) else []
    general = [text for other in header.groups for text in ranges(other.comment, operation.name, order) if text not in " ".join(own)]
    row = primitives.get(operation.name.removeprefix("bt_"))
    operation.primitive = row
    operation.paragraphs = own + general
    if own and not re.match(RANGE, own[0]):
        operation.summary = first_sentence(own[0])
    elif row:
        operation.summary = row.doc
    else:
        raise Mistake(f"{header.name}: {operation.name} needs a comment above it")
    operation.header = header.name
    operation.section, of_all = header.sections[group.section]
    prototype = next(" ".join(other.prototypes[function].split()).replace("BT_API ", "").replace("BT_MUST_USE ", "")
                     for other in header.groups if function in other.prototypes)
    forms, numbers = call_forms(operation, function, prototype, *header.macros.get(operation.name, ("", "")), header)
    declared = [] if function.startswith("bti_") else [prototype]
    operation.synopsis = declared + forms if function == operation.name else forms + declared
    operation.types = [header.types[name] for name in dict.fromkeys(re.findall(r"\w+_fn\b", prototype)) if name in header.types]
    operation.types = [(text, comment if comment != " ".join(own) else "") for text, comment in operation.types]
    if numbers:
        what = "a number" if len(numbers) == 1 else "numbers"
        operation.paragraphs.append(f"{' and '.join(numbers)} may be {what}: {operation.name}({example_call(numbers, prototype)}).")
    operation.paragraphs += of_all


def example_call(numbers, prototype):
    names = [re.search(r"(\w+)$", part)[1] for part in prototype[prototype.index("(") + 1:-2].split(", ")]
    return ", ".join("2" if name == numbers[-1] else name for name in names if name != "options")


def find(operation, headers):
    """The header, the group and the function behind an operation: itself, or what its macro calls. None where it is not declared."""
    for header in headers:
        for group in header.groups:
            if operation.name in group.prototypes:
                return header, group, operation.name
        for group in header.groups:
            if operation.name in group.macros:
                called = re.findall(r"\bbti?_\w+(?=\()", group.macros[operation.name][1])
                function = next((name for name in called if any(name in other.prototypes for other in header.groups)), None)
                if function:
                    return header, group, function
    return None


def see_also(operations):
    for operation in operations.values():
        section = [other.name for other in operations.values() if (other.header, other.section) == (operation.header, operation.section)]
        at = section.index(operation.name)
        near = section[max(0, at - NEIGHBOURS):at] + section[at + 1:at + 1 + NEIGHBOURS]
        said = [name for text in operation.paragraphs if not re.match(RANGE, text) for name in re.findall(r"\bbt_\w+", text)]
        operation.see = sorted((set(near) | set(said)) & set(operations) - {operation.name})


def load(examples):
    """The headers, all operations in the order of the headers but for those of which something is missing, and what that is."""
    mistakes = []
    headers = [Header(name) for name in FIRST + sorted({path.stem for path in (ROOT / "include/berth").glob("*.h")} - set(FIRST))]
    found, primitives = read_names(), read_primitives()
    places = {name: find(operation, headers) for name, operation in found.items()}
    mistakes += [f"{name} of src/array/names.def is in no header" for name, place in places.items() if not place]
    order = [name for header in headers for group in header.groups for name in list(group.prototypes) + [n for n in group.macros if n not in group.prototypes]
             if places.get(name) and places[name][1] is group]
    for name in order:
        try:
            describe(found[name], *places[name], order, primitives)
            if name not in examples:
                raise Mistake(f"docs/reference: {name} has no example")
            found[name].example = examples[name]
        except Mistake as mistake:
            mistakes.append(str(mistake))
    mistakes += [f"{examples[name].place}: there is no operation {name} in src/array/names.def" for name in examples if name not in found]
    operations = {name: found[name] for name in order if found[name].example}
    see_also(operations)
    return headers, operations, mistakes
