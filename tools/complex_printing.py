#!/usr/bin/env python3
"""Writes tests/golden/complex_printing.json: how NumPy prints complex numbers, in the form of tests/golden/README.md. Needs numpy from PyPI. Usage: tools/complex_printing.py
[FILE [SEED]]"""
import json
import pathlib
import sys

import numpy

seed = int(sys.argv[2]) if len(sys.argv) > 2 else 20261127
draw = numpy.random.default_rng(seed)
file = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/golden/complex_printing.json"
cases = []


def add(array):
    cases.append({"dtype": str(array.dtype), "shape": list(array.shape), "hex": array.tobytes().hex(), "iota": None, "text": str(array), "repr": repr(array)})


def parts(shape, scale):
    places = draw.integers(0, 5)
    kinds = [draw.uniform(-1, 1, shape) * scale, numpy.round(draw.uniform(-9, 9, shape), int(places)), draw.integers(-20, 20, shape).astype(float)]
    return kinds[draw.integers(len(kinds))]


for dtype in "complex64", "complex128":
    for shape in [(), (1,), (3,), (7,), (20,), (2, 3), (4, 2, 2), (0,), (2, 0), (25, 41)]:
        for scale in [1.0, 1e-3, 1e7, 1e-9, 1e12] if len(shape) < 2 or shape[0] < 9 else [1.0]:
            array = numpy.array(parts(shape, scale) + 1j * parts(shape, scale * 10.0 ** draw.integers(-2, 3))).astype(dtype)
            add(array)
    for number in [0, 1, 2j, -2j, 1 + 2j, -1 - 2.5j, 1e20 + 1j, 1e-7j, complex("nan"), complex("inf"), complex("-inf+nanj"), complex("1-infj"), 0.1 + 0.3j, -0.0 + 1j]:
        add(numpy.array(number, dtype))
        add(numpy.array([number, 1.5 - 0.25j, 3], dtype))
        add(numpy.array([[number]], dtype))
json.dump({"source": f"NumPy {numpy.__version__}", "cases": cases}, open(file, "w"), indent=0)
print(f"{len(cases)} cases")
