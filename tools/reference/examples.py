"""The examples in docs/reference/*.txt: read, made a C program, compared with what that prints, written anew."""
import re
import subprocess
from dataclasses import dataclass, field

from headers import ROOT
from operations import Mistake

FOLDER = ROOT / "docs/reference"
MARK = "\x1d"  # before the name of each example, in the program's output
WITHOUT = "skipped"  # the line of an example whose library this machine lacks


@dataclass
class Example:
    place: str  # FILE:LINE
    functions: list = field(default_factory=list)
    statements: list = field(default_factory=list)
    output: list = field(default_factory=list)


def read_file(path, examples):
    example, in_function = None, False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"{path.relative_to(ROOT)}:{number}"
        if in_function or line.startswith("static "):
            example.functions.append(line)
            in_function = line != "}" and not line.endswith("; }")
        elif re.fullmatch(r"bt_\w+", line):
            if line in examples:
                raise Mistake(f"{place}: {line} has an example already, at {examples[line].place}")
            example = examples[line] = Example(place)
        elif line.startswith("    ") and example:
            example.statements.append(line[4:])
        elif line.startswith("|") and example:
            example.output.append(line[2:])
        elif line and not line.startswith("#"):
            raise Mistake(f"{place}: neither a name, a function, an indented statement, output behind '| ' nor a comment")


def read():
    examples = {}
    for path in sorted(FOLDER.glob("*.txt")):
        read_file(path, examples)
    for name, example in examples.items():
        if not re.search(rf"\b{name}\b", "\n".join(example.statements)):
            raise Mistake(f"{example.place}: the example of {name} does not use it")
    return examples


def program(operations):
    """All examples as one C program: each in a function, behind a line with its name."""
    parts = ["#include <berth.h>\n#include <math.h>\n#include <stdio.h>\n#include <string.h>\n"]
    for operation in operations.values():
        body = "\n".join("        " + line for line in operation.example.statements)
        parts += ["\n".join(operation.example.functions),
                  f"static void example_{operation.name}(void) {{\n    BT_SCOPE {{\n{body}\n    }}\n}}\n"]
    rows = "".join(f'    {{"{o.name}", example_{o.name}, {"true" if o.header == "berth/linalg.h" else "false"}}},\n' for o in operations.values())
    parts.append(f"""static const struct {{
    const char *name;
    void (*run)(void);
    bool factorises;
}} examples[] = {{
{rows}}};

/* Whether the library of factorisations is there. */
static bool can_factorise(void) {{
    bool can = false;
    BT_SCOPE can = bt_block(bt_inv(bt_eye(1, 1, BT_F64))) != BT_UNIMPLEMENTED;
    return can;
}}

int main(void) {{
    setvbuf(stdout, NULL, _IONBF, 0);
    bool can = can_factorise();
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {{
        printf("\\x1d%s\\n", examples[i].name);
        if (examples[i].factorises && !can)
            printf("{WITHOUT}\\n");
        else
            examples[i].run();
    }}
    return 0;
}}
""")
    return "\n".join(part for part in parts if part)


def run(command):
    """What each example prints: a list of lines by name."""
    done = subprocess.run([command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    printed = {}
    for part in done.stdout.split(MARK)[1:]:
        name, _, text = part.partition("\n")
        printed[name] = text.splitlines()
    if done.returncode:
        raise Mistake(f"{command} ends with {done.returncode}; its last example is {list(printed)[-1] if printed else 'none'}:\n{done.stdout[-2000:]}")
    return printed


def compare(operations, printed):
    """How many examples were skipped; a mistake where another prints something else than is written, or nothing."""
    wrong, skipped = [], 0
    for name, operation in operations.items():
        example, got = operation.example, printed.get(name, [])
        if got == [WITHOUT]:
            skipped += 1
        elif got != example.output or not got:
            wrong += [f"{example.place}: {name} prints", *(f"    {line}" for line in got), "and not", *(f"    {line}" for line in example.output)]
    if wrong:
        raise Mistake("\n".join(wrong))
    return skipped


def write(printed):
    """Puts what the examples print into their files, behind the statements."""
    for path in sorted(FOLDER.glob("*.txt")):
        blocks = re.split(r"(?m)^(?=bt_\w+$)", path.read_text())
        for i, block in enumerate(blocks[1:], 1):
            name = block.split("\n", 1)[0]
            lines = [line for line in block.split("\n") if not line.startswith("|")]
            last = max(j for j, line in enumerate(lines) if line.startswith("    "))
            output = printed.get(name, [])
            if output != [WITHOUT]:
                lines[last + 1:last + 1] = [f"| {line}".rstrip() for line in output]
                blocks[i] = "\n".join(lines)
        path.write_text("".join(blocks))
