#!/usr/bin/env python3
"""Writes tests/golden/arrays.safetensors: what JAX and NumPy give for operations that arrange, index, scatter and fold arrays, with gradients, in the form of
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



def integers(low, high, *shape, dtype="int32"):
    return draw.integers(low, high, shape, dtype=dtype)


def add_of_places(op, inputs, call, attrs, tolerance=1e-12):
    """A case with indices, which have no gradient: of x and the updates alone."""
    name = f"{op}/{sum(case['op'] == op for case in cases)}"
    x, indices, updates = inputs
    parts = {"in0": x, "in1": indices, "in2": updates}
    made = call(jnp.asarray(x), jnp.asarray(indices), jnp.asarray(updates))
    case = {"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(3)], "output": f"{name}.out"}
    case["rtol"] = case["atol"] = 1e-5 if x.dtype == numpy.float32 else tolerance
    parts["out"] = numpy.asarray(made)
    if x.dtype.kind == "f":
        _, back = jax.vjp(lambda x, z: call(x, jnp.asarray(indices), z), jnp.asarray(x), jnp.asarray(updates))
        cotangent = numbers(*made.shape, dtype=made.dtype)
        parts |= {"ct": cotangent} | {f"grad{i}": numpy.asarray(g) for i, g in zip((0, 2), back(jnp.asarray(cotangent)))}
        case["vjp"] = {"cotangent": f"{name}.ct", "of": [0, 2], "grads": [f"{name}.grad0", f"{name}.grad2"]}
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x).reshape(x.shape) for part, x in parts.items()})
    cases.append(case)


def scattered(way, axis, along):
    def call(x, indices, updates):
        place = [slice(None)] * axis + [indices]
        if along:
            place = list(jnp.meshgrid(*(jnp.arange(n) for n in indices.shape), indexing="ij"))
            place[axis] = indices
        return getattr(x.at[tuple(place)], way)(updates, mode="drop")

    return call


# JAX leaves open which of several updates of a place is set: their places differ, but for those of one value.
for dtype in ("float64", "float32", "int32"):
    for axis, shape in ((0, (5, 3)), (1, (2, 5, 3)), (2, (2, 3, 6))):
        length, count = shape[axis], 4
        updates = shape[:axis] + (count,) + shape[axis + 1:]
        apart = draw.permutation(length)[:count].astype("int32")
        apart[0] -= length
        add_of_places("scatter_set", [numbers(*shape, dtype=dtype), apart, numbers(*updates, dtype=dtype)], scattered("set", axis, False), {"axis": axis})
        for way in ("max", "min"):
            x, z = (numpy.round(numbers(*s, dtype=dtype)) for s in (shape, updates))  # many ties
            add_of_places(f"scatter_{way}", [x.astype(dtype), integers(-length - 1, length + 1, count), z.astype(dtype)], scattered(way, axis, False), {"axis": axis})
    apart = numpy.argsort(draw.uniform(size=(4, 5)), axis=1)[:, :3].astype("int64")
    add_of_places("scatter_set_along_axis", [numbers(4, 5, dtype=dtype), apart - 5, numbers(4, 3, dtype=dtype)], scattered("set", 1, True), {"axis": 1})
    for way in ("max", "min"):
        x, z = (numpy.round(numbers(*s, dtype=dtype)).astype(dtype) for s in ((4, 5), (7, 5)))
        add_of_places(f"scatter_{way}_along_axis", [x, integers(-4, 6, 7, 5), z], scattered(way, 0, True), {"axis": 0})
    for axis, reverse in ((0, False), (1, True), (-1, False)):
        few = numbers(3, 4, 5, dtype=dtype) if dtype != "int32" else integers(-3, 4, 3, 4, 5)
        some = numpy.where(draw.uniform(size=few.shape) < 0.15, 0, few).astype(dtype)
        for op, fold in (("cumprod", jax.lax.cumprod), ("cummax", jax.lax.cummax), ("cummin", jax.lax.cummin)):
            x = some if op == "cumprod" else few
            add(op, {"axis": axis, "reverse": reverse}, [x], lambda x, f=fold, a=axis % 3, r=reverse: f(x, a, r), gradients=op == "cumprod" or dtype != "int32")


def add_of_mask(x, mask, axis):
    name = f"boolean_mask/{sum(case['op'] == 'boolean_mask' for case in cases)}"
    key = (slice(None),) * axis + (mask,)
    parts = {"in0": x, "in1": mask, "out": x[key]}
    case = {"name": name, "op": "boolean_mask", "attrs": {"axis": axis}, "inputs": [f"{name}.in0", f"{name}.in1"], "output": f"{name}.out", "rtol": 0, "atol": 0}
    if x.dtype.kind == "f":
        cotangent = numbers(*parts["out"].shape, dtype=x.dtype)
        _, back = jax.vjp(lambda x: x[key], jnp.asarray(x))
        parts |= {"ct": cotangent, "grad0": numpy.asarray(back(jnp.asarray(cotangent))[0])}
        case["vjp"] = {"cotangent": f"{name}.ct", "of": [0], "grads": [f"{name}.grad0"]}
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x) for part, x in parts.items()})
    cases.append(case)


for dtype in ("float64", "float32", "int32"):
    for axis, shape in ((0, (3,)), (1, (4, 2)), (0, (3, 4, 2)), (2, (2,))):
        add_of_mask(numbers(3, 4, 2, dtype=dtype), draw.uniform(size=shape) < 0.5, axis)
    add("nonzero", {}, [integers(-1, 2, 3, 2, 4).astype(dtype)], lambda x: jnp.stack(jnp.nonzero(x), 1), gradients=False)
for dtype in ("float64", "float32"):
    for spec, shapes in (("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))), ("i,j,k", ((2,), (3,), (4,))), ("abc,bd,ce,def->fa", ((2, 3, 4), (3, 5), (4, 2), (5, 2, 3))),
                         ("ij,ij,ij->", ((3, 4),) * 3), ("a,ab,b,", ((2,), (2, 3), (3,), ())), ("ii->i", ((4, 4),)), ("ii", ((4, 4),)), ("iij->ji", ((3, 3, 2),)),
                         ("iji,jkk->ik", ((3, 2, 3), (2, 4, 4))), ("iiii->i", ((2, 2, 2, 2),)), ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))),
                         ("...ij,jk", ((2, 2, 3, 4), (4, 5))), ("...i,...i", ((3, 1, 4), (2, 4))), ("i...,i...->...i", ((2, 3, 1), (2, 5))),
                         ("...,...", ((3, 1), (2,))), ("b...h,hd,d...->...b", ((2, 3, 4), (4, 5), (5, 3))), ("ba", ((2, 3),)), ("...aa->a...", ((2, 3, 3),)),
                         ("ij,jk,kl,lm,mn->in", ((2, 3), (3, 4), (4, 5), (5, 2), (2, 3)))):
        add("einsum", {"spec": spec}, [numbers(*shape, dtype=dtype) for shape in shapes], lambda *x, spec=spec: jnp.einsum(spec, *x))

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/arrays.safetensors",
          {"cases": json.dumps(cases), "source": f"JAX {jax.__version__} on CPU"})
