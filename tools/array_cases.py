#!/usr/bin/env python3
"""Writes tests/golden/arrays.safetensors: what JAX and NumPy give for operations that arrange, index and fold arrays, with gradients, in the form of
tests/golden/README.md. Needs jax, numpy and safetensors from PyPI. Usage: tools/array_cases.py [FILE]"""
import json
import sys

import jax
import jax.numpy as jnp
import numpy
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
draw = numpy.random.default_rng(20261127)
tensors, cases = {}, []
INF, NAN = float("inf"), float("nan")


def numbers(*shape, dtype="float64"):
    if numpy.issubdtype(dtype, numpy.integer):
        return draw.integers(-20, 20, shape, dtype=dtype)
    return draw.uniform(-2, 2, shape).astype(dtype)


def add(op, attrs, inputs, call, tolerance=1e-12, gradients=True):
    """One case; gradients of floats by a cotangent that is drawn."""
    name = f"{op}/{sum(case['op'] == op for case in cases)}"
    inputs = [numpy.asarray(x) for x in inputs]
    made, back = jax.vjp(call, *map(jnp.asarray, inputs)) if gradients and inputs[0].dtype.kind == "f" else (call(*map(jnp.asarray, inputs)), None)
    parts = {f"in{i}": x for i, x in enumerate(inputs)} | {"out": numpy.asarray(made)}
    case = {"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(len(inputs))], "output": f"{name}.out",
            "rtol": 1e-5 if inputs[0].dtype == numpy.float32 else tolerance, "atol": 1e-5 if inputs[0].dtype == numpy.float32 else tolerance}
    if back:
        cotangent = numbers(*made.shape, dtype=made.dtype)
        parts |= {"ct": cotangent} | {f"grad{i}": numpy.asarray(x) for i, x in enumerate(back(jnp.asarray(cotangent)))}
        case["vjp"] = {"cotangent": f"{name}.ct", "of": list(range(len(inputs))), "grads": [f"{name}.grad{i}" for i in range(len(inputs))]}
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x).reshape(x.shape) for part, x in parts.items()})
    cases.append(case)


for dtype in ("float64", "float32", "int32"):
    for k in (0, 1, -2, 9):
        add("tril", {"k": k}, [numbers(2, 3, 4, dtype=dtype)], lambda x, k=k: jnp.tril(x, k))
        add("triu", {"k": k}, [numbers(4, 3, dtype=dtype)], lambda x, k=k: jnp.triu(x, k))
        add("diagonal", {"k": k}, [numbers(2, 3, 4, dtype=dtype)], lambda x, k=k: jnp.diagonal(x, k, -2, -1))
    for k in (0, 2, -1):
        add("diag", {"k": k}, [numbers(3, dtype=dtype)], lambda x, k=k: jnp.diag(x, k))
    add("outer", {}, [numbers(3, dtype=dtype), numbers(2, 2, dtype=dtype)], jnp.outer)
    add("kron", {}, [numbers(2, 3, dtype=dtype), numbers(3, 2, dtype=dtype)], jnp.kron)
    add("kron", {}, [numbers(2, dtype=dtype), numbers(2, 1, 3, dtype=dtype)], jnp.kron)
    for shift, axis in ((2, 0), (-1, 1), (13, -1), (0, 0)):
        add("roll", {"shift": shift, "axis": axis}, [numbers(3, 5, dtype=dtype)], lambda x, s=shift, a=axis: jnp.roll(x, s, a))
    for axis in (0, -1):
        add("diff", {"axis": axis}, [numbers(4, 3, dtype=dtype)], lambda x, a=axis: jnp.diff(x, axis=a))
    for axis, index in ((0, 2), (1, -1), (-1, 0)):
        add("index", {"axis": axis, "index": index}, [numbers(3, 4, dtype=dtype)], lambda x, a=axis, i=index: jnp.take(x, i, axis=a))
    for places in ("1:-1, :, 3", "..., ::2", "-1", "None, 1:3, ..., None", ":, 2:0:-1, ::-1", "5:, 0", "1, 2, 3", " : , -3:-1 "):
        key = eval(f"numpy.s_[{places}]")
        add("at", {"places": places}, [numbers(4, 4, 4, dtype=dtype)], lambda x, key=key: x[key])
    for places, shape in (("1:-1, :, 3", (2, 4)), ("0", (4, 4)), ("..., 1:3", (2,)), ("2, 1, 3", ())):
        key = eval(f"numpy.s_[{places}]")
        add("set_at", {"places": places}, [numbers(4, 4, 4, dtype=dtype), numbers(*shape, dtype=dtype)], lambda x, v, key=key: x.at[key].set(v))
for dtype in ("float64", "float32"):
    add("trace", {}, [numbers(2, 3, 4, dtype=dtype)], lambda x: jnp.trace(x, 0, -2, -1))
    add("tensordot", {"axes_a": [1, 2], "axes_b": [0, 1]}, [numbers(2, 3, 4, dtype=dtype), numbers(3, 4, 5, dtype=dtype)], lambda a, b: jnp.tensordot(a, b, 2))
    add("tensordot", {"axes_a": [0, 2], "axes_b": [2, 1]}, [numbers(2, 3, 4, dtype=dtype), numbers(5, 4, 2, dtype=dtype)],
        lambda a, b: jnp.tensordot(a, b, ([0, 2], [2, 1])))
    add("tensordot", {"axes_a": [], "axes_b": []}, [numbers(2, dtype=dtype), numbers(3, 2, dtype=dtype)], lambda a, b: jnp.tensordot(a, b, 0))
    for q, axes, keep in ((0.5, [1], False), (0.3, [0, 2], True), (1.0, [-1], False), (0.0, [0], False)):
        axis = tuple(axes)
        add("quantile", {"q": q, "axes": axes, "keepdims": keep}, [numbers(3, 5, 4, dtype=dtype)],
            lambda x, q=q, a=axis, k=keep: jnp.quantile(x, q, axis=a, keepdims=k))
    add("median", {"axes": [1], "keepdims": False}, [numbers(3, 6, dtype=dtype)], lambda x: jnp.median(x, axis=1))
    add("logaddexp", {}, [numbers(3, 4, dtype=dtype) * 9, numbers(3, 4, dtype=dtype) * 9], jnp.logaddexp)
    add("logaddexp", {}, [numpy.array([1, 2, INF, -INF, 1, -1e30], dtype), numpy.array([1, -500, INF, -INF, -INF, 1e30], dtype)], jnp.logaddexp, gradients=False)
    special = numpy.array([1, NAN, INF, -INF, -2, 0], dtype)
    add("nan_to_num", {"nan": 3, "posinf": 4, "neginf": -5}, [special], lambda x: jnp.nan_to_num(x, nan=3, posinf=4, neginf=-5))
    add("median", {"axes": [1], "keepdims": True}, [numpy.array([[1, NAN, 3], [5, 4, 6]], dtype)], lambda x: jnp.median(x, axis=1, keepdims=True), gradients=False)

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/arrays.safetensors",
          {"cases": json.dumps(cases), "source": f"JAX {jax.__version__} on CPU"})
