#!/usr/bin/env python3
"""Writes tests/golden/search.safetensors: what JAX gives of searchsorted and unique, and NumPy of bincount and histogram, in the form of
ops.safetensors there.

Needs jax, numpy and safetensors from PyPI (pip install jax safetensors). Usage: tools/search_cases.py [FOLDER]"""
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
draw = numpy.random.default_rng(20261126)
tensors, cases = {}, []


def numbers(dtype, *shape):
    """Some of them several times; of floats NaN, infinities and zeros of both signs too."""
    if dtype == "bool":
        return draw.integers(0, 2, shape).astype(dtype)
    if numpy.issubdtype(dtype, numpy.integer):
        return draw.integers(0 if dtype.startswith("u") else -9, 30, shape).astype(dtype)
    x = (draw.integers(-20, 20, shape) / 8).astype(dtype)
    special = draw.random(shape)
    x[special < 0.1] = numpy.nan
    x[(special > 0.1) & (special < 0.15)] = numpy.inf
    x[(special > 0.15) & (special < 0.2)] = -0.0
    return x


def case(op, attrs, result, *inputs):
    name = f"{op}/{sum(other['op'] == op for other in cases)}"
    names = [f"{name}.in{i}" for i in range(len(inputs))]
    tensors.update(zip(names, map(numpy.ascontiguousarray, inputs)))
    tensors[f"{name}.out"] = numpy.ascontiguousarray(result)
    cases.append({"name": name, "op": op, "attrs": attrs, "inputs": names, "output": f"{name}.out", "vjp": None, "rtol": 0, "atol": 0})


def int32(x):
    return numpy.asarray(x).astype("int32")


for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8", "bool"):
    for n, shape in ((1, (7,)), (2, (3, 4)), (16, (5,)), (37, (2, 3, 5)), (1000, (200,)), (5, ()), (0, (3,))):
        line, values = numpy.sort(numbers(dtype, n)), numbers(dtype, *shape) if shape else numbers(dtype, 1)[0]
        for right in (False, True):
            places = jnp.searchsorted(line, values, side="right" if right else "left") if n else numpy.zeros(shape)
            case("searchsorted", {"right": right}, int32(places), line, numpy.asarray(values))
    for shape, size in (((40,), 12), ((40,), 60), ((6, 7), 3), ((1,), 1), ((1,), 4)):
        x = numbers(dtype, *shape)
        case("unique", {"size": size}, jnp.unique(x, size=size), x)
line, values = numpy.sort(numbers("int32", 20)), numbers("float32", 9)
case("searchsorted", {"right": False}, int32(jnp.searchsorted(line.astype("float32"), values)), line, values)
for dtype in ("int32", "int64", "uint8", "int8"):
    for shape, length in (((100,), 30), ((100,), 7), ((8, 9), 40), ((0,), 3), ((50,), 0)):
        x = numbers(dtype, *shape)
        x = numpy.abs(x.astype("int64")).astype(dtype)
        case("bincount", {"length": length}, int32([numpy.sum(x == i) for i in range(length)]), x)
for dtype in ("float32", "float64", "int32"):
    for shape, bins, low, high in (((200,), 10, -2, 2), ((200,), 3, -1, 0.5), ((6, 7), 1, 0, 1), ((500,), 64, -2.5, 2.5), ((0,), 4, 0, 1)):
        x = draw.uniform(-3, 3, shape).astype(dtype)
        if x.size > 20:
            x.reshape(-1)[:4] = low, high, 0, 1
        case("histogram", {"bins": bins, "low": low, "high": high}, int32(numpy.histogram(x, bins, (low, high))[0]), x)

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests" / "golden"
source = f"JAX {jax.__version__} on CPU, x64 enabled, NumPy {numpy.__version__}; tools/search_cases.py"
save_file(tensors, folder / "search.safetensors", {"source": source, "cases": json.dumps(cases)})
print(f"{len(cases)} cases")
