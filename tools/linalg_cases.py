#!/usr/bin/env python3
"""Writes tests/golden/linalg.safetensors: what JAX gives for linear algebra, with gradients, in the form of tests/golden/README.md. Vectors whose signs LAPACK chooses are
compared by squares. Needs jax, numpy and safetensors from PyPI. Usage: tools/linalg_cases.py [FILE]"""
import json
import sys

import jax
import jax.numpy as jnp
import numpy
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
draw = numpy.random.default_rng(20261127)
tensors, cases = {}, []


def numbers(*shape, dtype="float64"):
    return draw.uniform(-2, 2, shape).astype(dtype)


def positive(*shape, dtype="float64"):
    x = numbers(*shape)
    return (x @ x.swapaxes(-1, -2) + 2 * numpy.eye(shape[-1])).astype(dtype)


def regular(*shape, dtype="float64"):
    return (numbers(*shape) + 3 * numpy.eye(shape[-1])).astype(dtype)


def symmetric(*shape, dtype="float64"):
    x = numbers(*shape) + numpy.diag(numpy.arange(shape[-1]) * 3.0)
    return ((x + x.swapaxes(-1, -2)) / 2).astype(dtype)


def add(op, attrs, inputs, call):
    name = f"{op}/{sum(case['op'] == op for case in cases)}"
    made, back = jax.vjp(call, *map(jnp.asarray, inputs))
    cotangent = numbers(*made.shape, dtype=made.dtype)
    near = 3e-4 if inputs[0].dtype == numpy.float32 else 1e-9
    parts = {f"in{i}": x for i, x in enumerate(inputs)} | {"out": numpy.asarray(made), "ct": cotangent}
    parts |= {f"grad{i}": numpy.asarray(x) for i, x in enumerate(back(jnp.asarray(cotangent)))}
    of = list(range(len(inputs)))
    cases.append({"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in of], "output": f"{name}.out", "rtol": near, "atol": near,
                  "vjp": {"cotangent": f"{name}.ct", "of": of, "grads": [f"{name}.grad{i}" for i in of]}})
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x).reshape(numpy.shape(x)) for part, x in parts.items()})


for dtype in ("float64", "float32"):
    for batch in ((), (3,), (2, 2)):
        for n in (1, 2, 5):
            add("cholesky", {}, [positive(*batch, n, n, dtype=dtype)], jnp.linalg.cholesky)
            add("inv", {}, [regular(*batch, n, n, dtype=dtype)], jnp.linalg.inv)
            add("det", {}, [regular(*batch, n, n, dtype=dtype)], jnp.linalg.det)
            for part in (0, 1):
                add("slogdet", {"part": part}, [-regular(*batch, n, n, dtype=dtype)], lambda x, part=part: jnp.linalg.slogdet(x)[part])
            add("solve", {}, [regular(*batch, n, n, dtype=dtype), numbers(*batch, n, 3, dtype=dtype)], jnp.linalg.solve)
            add("eigh", {"part": 0}, [symmetric(*batch, n, n, dtype=dtype)], lambda x: jnp.linalg.eigh(x)[0])
            add("eigh", {"part": 1}, [symmetric(*batch, n, n, dtype=dtype)], lambda x: jnp.linalg.eigh(x)[1] ** 2)
        for m, n in ((4, 3), (3, 3), (5, 1)):
            for part in (0, 1):
                add("qr", {"part": part}, [numbers(*batch, m, n, dtype=dtype)], lambda x, part=part: jnp.linalg.qr(x)[part])
        for m, n in ((4, 3), (3, 3), (2, 5)):
            for part in (0, 1, 2):
                add("svd", {"part": part}, [numbers(*batch, m, n, dtype=dtype)],
                    lambda x, part=part: jnp.linalg.svd(x, full_matrices=False)[part] ** (1 if part == 1 else 2))
    for lower in (True, False):
        for transposed in (True, False):
            for unit in (True, False):
                add("triangular_solve", {"upper": not lower, "transposed": transposed, "unit": unit}, [regular(2, 4, 4, dtype=dtype), numbers(2, 4, 3, dtype=dtype)],
                    lambda a, b, l=lower, t=transposed, u=unit: jax.scipy.linalg.solve_triangular(a, b, trans=int(t), lower=l, unit_diagonal=u))
    add("solve", {}, [regular(4, 4, dtype=dtype), numbers(4, dtype=dtype)], jnp.linalg.solve)
    add("solve", {}, [regular(3, 1, 4, 4, dtype=dtype), numbers(2, 4, 2, dtype=dtype)], jnp.linalg.solve)
    add("lstsq", {}, [numbers(6, 3, dtype=dtype), numbers(6, 2, dtype=dtype)], lambda a, b: jnp.linalg.pinv(a) @ b)
    add("lstsq", {}, [numbers(6, 3, dtype=dtype), numbers(6, dtype=dtype)], lambda a, b: jnp.linalg.pinv(a) @ b)

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/linalg.safetensors", {"cases": json.dumps(cases), "source": f"JAX {jax.__version__} on CPU"})
