#!/usr/bin/env python3
"""Writes examples/models/unicode_ranges.h: which code points are letters and which are numbers, by Python's unicodedata."""
import sys
import unicodedata
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "examples/models/unicode_ranges.h"
ROW = 8  # ranges


def ranges(kind):
    """(first, last) of runs of code points whose category begins with `kind`."""
    found, first = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(kind)
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            found.append((first, code - 1))
            first = None
    return found


def table(name, kind):
    parts = [f"{{0x{first:x}, 0x{last:x}}}" for first, last in ranges(kind)]
    rows = [", ".join(parts[i:i + ROW]) for i in range(0, len(parts), ROW)]
    return f"static const code_range {name}[] = {{\n    " + ",\n    ".join(rows) + ",\n};\n"


PAGE.write_text(f"""/* Code points by kind, of Unicode {unicodedata.unidata_version}; made by tools/unicode_ranges.py. */
#ifndef MODELS_UNICODE_RANGES_H
#define MODELS_UNICODE_RANGES_H

#include <stdint.h>

typedef struct code_range {{
    uint32_t first, last;
}} code_range;

/* clang-format off */
{table("letters", "L")}
{table("numbers", "N")}
/* clang-format on */

#endif
""")
