#!/usr/bin/env python3
"""Makes docs/names.md of tools/names.tsv: what JAX, NumPy and PyTorch call something, and how berth says it.

Each name of berth must be declared in include/berth. With --check nothing is written, and the exit code is 1 if docs/names.md is not what would be written."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/names.md"
COLUMNS = 5


def declared():
    """Public functions and macros with arguments."""
    text = "".join(header.read_text() for header in (ROOT / "include/berth").glob("*.h"))
    return set(re.findall(r"\b(bt_[a-z0-9_]+|BT_[A-Z0-9_]+)\(", text))


def twin(cell, jax):
    name = jax.split(".")[-1] if jax.startswith("nn.") else jax
    return "" if cell == "-" else f"`{name}`" if cell == "=" else cell if cell.endswith("'s") else f"`{cell}`"


def berth(cell, known):
    if cell.startswith("no: "):
        return "none", cell[len("no: "):]
    names = cell.split(", ")
    for name in names:
        if name not in known:
            sys.exit(f"tools/names.tsv: {name} is not declared in include/berth")
    return ", ".join(f"`{name}`" for name in names), ""


def page():
    known, lines, there, count = declared(), [], 0, 0
    for number, line in enumerate((ROOT / "tools/names.tsv").read_text().splitlines()[2:], 3):
        if line.startswith("# "):
            lines += ["", f"## {line[2:]}", "", "| JAX | NumPy | PyTorch | berth | |", "| --- | --- | --- | --- | --- |"]
            continue
        cells = line.split("\t")
        if len(cells) != COLUMNS:
            sys.exit(f"tools/names.tsv:{number}: {len(cells)} columns; {COLUMNS} are needed, with tabs between them")
        jax, numpy, torch, names, note = cells
        text, why = berth(names, known)
        count += 1
        there += not why
        lines.append(f"| {twin(jax, jax)} | {twin(numpy, jax)} | {twin(torch, jax)} | {text} | {note or why} |")
    head = ["# From JAX, NumPy and PyTorch to berth", "",
            f"{count} names that programs use most, without the prefixes `jnp`, `jax`, `np` and `torch`, and how berth says them: {there} are there. Several names in the column of berth",
            "say what it is composed of. The headers in `include/berth` describe each function. Made by `tools/names_table.py`, which checks that what it names is public."]
    return "\n".join(head + lines) + "\n"


def main():
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        sys.exit("docs/names.md is not what tools/names_table.py makes of tools/names.tsv; run it")


if __name__ == "__main__":
    main()
