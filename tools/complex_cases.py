#!/usr/bin/env python3
"""Writes tests/golden/complex.safetensors: what JAX gives for complex numbers, their linear algebra and Fourier transforms, with gradients, in the form of tests/golden/README.md: complex numbers are pairs
of reals along the last axis, so that a gradient by them is one of real numbers. Needs jax, numpy and safetensors from PyPI. Usage: tools/complex_cases.py [FILE [SEED]]"""
import json
import math
import sys

import jax
import jax.numpy as jnp
import numpy
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
draw = numpy.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 20261127)
tensors, cases = {}, []


def reals(*shape, dtype="float64", low=-2.0, high=2.0):
    return draw.uniform(low, high, shape).astype(dtype)


def pairs(*shape, dtype="float64"):
    """Not near 0, where sizes and angles have no gradient."""
    size, angle = draw.uniform(0.4, 2, shape), draw.uniform(-3, 3, shape)
    return numpy.stack([size * numpy.cos(angle), size * numpy.sin(angle)], -1).astype(dtype)


def number_of(pair):
    return jax.lax.complex(pair[..., 0], pair[..., 1])


def pair_of(number):
    return jnp.stack([jnp.real(number), jnp.imag(number)], -1)


def add(op, attrs, inputs, which, call, near=None, gradients=True):
    """`which`: the inputs that are pairs."""
    name = f"{op}/{sum(case['op'] == op for case in cases)}"
    floats = [i for i, x in enumerate(inputs) if numpy.issubdtype(x.dtype, numpy.floating)]
    made_complex = []

    def of_reals(*given):
        all_inputs = list(inputs)
        for i, x in zip(floats, given):
            all_inputs[i] = x
        made = call(*(number_of(x) if i in which else jnp.asarray(x) for i, x in enumerate(all_inputs)))
        made_complex.append(jnp.iscomplexobj(made))
        return pair_of(made) if made_complex[0] else made

    single = any(x.dtype == numpy.float32 for x in inputs)
    near = near or (3e-5 if single else 1e-10)
    if gradients:
        made, back = jax.vjp(of_reals, *(jnp.asarray(inputs[i]) for i in floats))
    else:
        made = of_reals(*(jnp.asarray(inputs[i]) for i in floats))
    parts = {f"in{i}": x for i, x in enumerate(inputs)} | {"out": numpy.asarray(made)}
    case = {"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(len(inputs))], "output": f"{name}.out", "rtol": near, "atol": near,
            "pairs": list(which), "gives_pairs": bool(made_complex[0])}
    if gradients:
        cotangent = reals(*made.shape, dtype=made.dtype)
        grads = back(jnp.asarray(cotangent))
        parts |= {"ct": cotangent} | {f"grad{i}": numpy.asarray(x) for i, x in zip(floats, grads)}
        case["vjp"] = {"cotangent": f"{name}.ct", "of": floats, "grads": [f"{name}.grad{i}" for i in floats]}
    cases.append(case)
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x).reshape(numpy.shape(x)) for part, x in parts.items()})


ONE = {"neg": jnp.negative, "square": jnp.square, "reciprocal": lambda z: 1 / z, "abs": jnp.abs, "sign": lambda z: z / jnp.abs(z), "exp": jnp.exp, "exp2": lambda z: jnp.exp(z * math.log(2)),
       "expm1": lambda z: jnp.exp(z) - 1, "log": jnp.log, "log2": lambda z: jnp.log(z) / math.log(2), "log10": lambda z: jnp.log(z) / math.log(10), "log1p": lambda z: jnp.log(1 + z),
       "sqrt": jnp.sqrt, "rsqrt": lambda z: 1 / jnp.sqrt(z), "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "sinh": jnp.sinh, "cosh": jnp.cosh, "tanh": jnp.tanh,
       "sigmoid": lambda z: 1 / (1 + jnp.exp(-z)), "real": jnp.real, "imag": jnp.imag, "conj": jnp.conj, "angle": jnp.angle}
TWO = {"add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "pow": lambda z, w: jnp.exp(w * jnp.log(z))}

for dtype in ("float64", "float32"):
    for op, call in ONE.items():
        shape = (3, 4) if dtype == "float64" else (5,)
        add(op, {}, [pairs(*shape, dtype=dtype)], [0], call)
    for op, call in TWO.items():
        for left, right in (((2, 1), (1, 3)), ((), (3,))) if dtype == "float64" else (((4,), (4,)),):
            add(op, {}, [pairs(*left, dtype=dtype), pairs(*right, dtype=dtype)], [0, 1], call)
        add(op, {}, [pairs(4, dtype=dtype), reals(4, dtype=dtype, low=0.5)], [0], call)
        add(op, {}, [reals(4, dtype=dtype, low=0.5), pairs(4, dtype=dtype)], [1], call)
        add(op, {}, [pairs(4, dtype=dtype), reals(3, 4, dtype="float64" if dtype == "float32" else "float32", low=0.5)], [0], call)
    equal = pairs(6, dtype=dtype)
    other = numpy.where(numpy.arange(6)[:, None] % 2 == 0, equal, pairs(6, dtype=dtype)).astype(dtype)
    add("eq", {}, [equal, other], [0, 1], jnp.equal, gradients=False)
    add("ne", {}, [equal, other], [0, 1], jnp.not_equal, gradients=False)
    add("where", {}, [numpy.arange(12).reshape(3, 4) % 3 == 0, pairs(3, 4, dtype=dtype), pairs(4, dtype=dtype)], [1, 2], jnp.where)
    add("where", {}, [numpy.arange(4) % 2 == 0, pairs(4, dtype=dtype), reals(4, dtype=dtype)], [1], jnp.where)
    add("complex", {}, [reals(3, 4, dtype=dtype), reals(4, dtype=dtype)], [], lambda x, y: jax.lax.complex(x, jnp.broadcast_to(y, x.shape)))
    add("polar", {}, [reals(5, dtype=dtype), reals(5, dtype=dtype)], [], lambda r, a: jax.lax.complex(r * jnp.cos(a), r * jnp.sin(a)))
    for axes in (None, [1], [0, 2]) if dtype == "float64" else ([1],):
        named = {} if axes is None else {"axes": axes}
        axis = None if axes is None else tuple(axes)
        for keep in (False,) if axes == [1] else (True,):
            for op, call in (("sum", jnp.sum), ("prod", jnp.prod), ("mean", jnp.mean)):
                add(op, named | {"keepdims": keep}, [pairs(3, 5, 2, dtype=dtype)], [0], lambda z, c=call, a=axis, k=keep: c(z, axis=a, keepdims=k))
        add("var", named, [pairs(3, 5, 2, dtype=dtype)], [0], lambda z, a=axis: jnp.mean(jnp.abs(z - jnp.mean(z, axis=a, keepdims=True)) ** 2, axis=a))
        add("norm", named, [pairs(3, 5, 2, dtype=dtype)], [0], lambda z, a=axis: jnp.sqrt(jnp.sum(jnp.real(z) ** 2 + jnp.imag(z) ** 2, axis=a)))
    for axis in (0, 1):
        add("cumsum", {"axis": axis}, [pairs(3, 4, dtype=dtype)], [0], lambda z, a=axis: jnp.cumsum(z, axis=a))
    for left, right in (((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 1)), ((4,), (4,)), ((3, 4), (4,)), ((1, 2, 4), (3, 4, 2)), ((0, 4), (4, 2))):
        add("matmul", {}, [pairs(*left, dtype=dtype), pairs(*right, dtype=dtype)], [0, 1], jnp.matmul, near=1e-4 if dtype == "float32" else None)
    add("matmul", {}, [reals(3, 4, dtype=dtype), pairs(4, 5, dtype=dtype)], [1], jnp.matmul)
    add("matmul", {}, [pairs(3, 4, dtype=dtype), reals(4, 5, dtype=dtype)], [0], jnp.matmul)
    for text, shapes in (("ij,jk->ik", ((3, 4), (4, 2))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))), ("ii->i", ((3, 3),)), ("ij->ji", ((2, 3),)), ("i,j->ij", ((2,), (3,))), ("ij,jk,kl->il", ((2, 3), (3, 2), (2, 4)))):
        add("einsum", {"spec": text}, [pairs(*shape, dtype=dtype) for shape in shapes], list(range(len(shapes))), lambda *z, t=text: jnp.einsum(t, *z))
    add("reshape", {"shape": [4, 3]}, [pairs(2, 6, dtype=dtype)], [0], lambda z: z.reshape(4, 3))
    add("transpose", {}, [pairs(2, 3, 4, dtype=dtype)], [0], lambda z: z.T)
    add("transpose", {"axes": [1, 2, 0]}, [pairs(2, 3, 4, dtype=dtype)], [0], lambda z: z.transpose(1, 2, 0))
    add("broadcast_to", {"shape": [2, 3, 4]}, [pairs(3, 1, dtype=dtype)], [0], lambda z: jnp.broadcast_to(z, (2, 3, 4)))
    add("slice", {"start": [1, 0], "stop": [4, 6], "step": [1, 2]}, [pairs(5, 6, dtype=dtype)], [0], lambda z: z[1:4, 0:6:2])
    add("flip", {"axes": [1]}, [pairs(2, 5, dtype=dtype)], [0], lambda z: z[:, ::-1])
    add("concat", {"axis": 1}, [pairs(2, 3, dtype=dtype), pairs(2, 1, dtype=dtype)], [0, 1], lambda *z: jnp.concatenate(z, 1))
    add("stack", {"axis": 1}, [pairs(2, 3, dtype=dtype), pairs(2, 3, dtype=dtype)], [0, 1], lambda *z: jnp.stack(z, 1))
    add("roll", {"shift": 2, "axis": 1}, [pairs(2, 5, dtype=dtype)], [0], lambda z: jnp.roll(z, 2, 1))
    add("take", {"axis": 0}, [pairs(4, 3, dtype=dtype), numpy.array([2, 0, 2, -1], "int32")], [0], lambda z, i: jnp.take(z, i, axis=0))
    add("take", {"axis": 1}, [pairs(4, 3, dtype=dtype), numpy.array([[2, 0], [1, 1]], "int64")], [0], lambda z, i: jnp.take(z, i, axis=1))
    add("trace", {}, [pairs(3, 3, dtype=dtype)], [0], jnp.trace)
    add("outer", {}, [pairs(3, dtype=dtype), pairs(4, dtype=dtype)], [0, 1], jnp.outer)

    transforms = {"fft": (jnp.fft.fft, 1, True), "ifft": (jnp.fft.ifft, 1, True), "rfft": (jnp.fft.rfft, 1, False), "irfft": (jnp.fft.irfft, 1, True),
                  "fft2": (jnp.fft.fft2, 2, True), "ifft2": (jnp.fft.ifft2, 2, True), "rfft2": (jnp.fft.rfft2, 2, False), "irfft2": (jnp.fft.irfft2, 2, True),
                  "fftn": (jnp.fft.fftn, 0, True), "ifftn": (jnp.fft.ifftn, 0, True), "rfftn": (jnp.fft.rfftn, 0, False), "irfftn": (jnp.fft.irfftn, 0, True)}

    def add_transform(op, shape, sizes=None, axes=None, norm=None):
        call, count, of_complex = transforms[op]
        attrs = {key: value for key, value in (("sizes", sizes), ("axes", axes), ("norm", norm)) if value is not None}
        of = {"norm": norm}
        if count == 1:
            of |= {"n": None if sizes is None else sizes[0], "axis": -1 if axes is None else axes[0]}
        elif count == 2:
            of |= {"s": sizes, "axes": (-2, -1) if axes is None else axes}
        else:
            of |= {"s": sizes, "axes": axes}
        given = pairs(*shape, dtype=dtype) if of_complex else reals(*shape, dtype=dtype)
        add(op, attrs, [given], [0] if of_complex else [], lambda z: call(z, **of), near=1e-4 if dtype == "float32" else 1e-9)

    for op, (call, count, of_complex) in transforms.items():
        if count == 1:
            for n in (1, 2, 3, 8, 12, 31) if dtype == "float64" else (16, 97):
                add_transform(op, (n + (op == "irfft" and n == 1),))
            if dtype == "float32":
                continue
            add_transform(op, (2, 3, 5), norm="ortho")
            add_transform(op, (6, 4), axes=[0], norm="forward")
            add_transform(op, (3, 6, 2), axes=[1])
            add_transform(op, (3, 6), sizes=[9])
            add_transform(op, (3, 6), sizes=[5])
            add_transform(op, (7, 3), sizes=[4], axes=[-2], norm="ortho")
            add_transform(op, (0, 6))
        elif dtype == "float32":
            add_transform(op, (3, 4, 5))
        elif count == 2:
            add_transform(op, (4, 6))
            add_transform(op, (3, 5, 7), norm="ortho")
            add_transform(op, (2, 3, 4, 5), axes=[1, 2], norm="forward")
            add_transform(op, (4, 3, 6), axes=[2, 0])
            add_transform(op, (4, 6), sizes=[5, 7])
        else:
            add_transform(op, (3, 4, 5))
            add_transform(op, (3, 4, 5), norm="ortho")
            add_transform(op, (2, 3, 4, 2), axes=[0, 2, 3], norm="forward")
            add_transform(op, (4, 3, 6), sizes=[2, 5], axes=[0, 1])
            add_transform(op, (6,))
    for n in (1, 5, 8):
        add("fftshift", {}, [pairs(n, dtype=dtype)], [0], jnp.fft.fftshift)
        add("ifftshift", {"axes": [1]}, [reals(3, n, dtype=dtype)], [], lambda x: jnp.fft.ifftshift(x, axes=1))



def matrices(*shape, dtype="float64"):
    return draw.uniform(-1, 1, (*shape, 2)).astype(dtype)


def added(pair, diagonal):
    """A number to each element of the diagonal."""
    made = pair.copy()
    made[..., 0] += diagonal * numpy.eye(*pair.shape[-3:-1], dtype=pair.dtype)
    return made


def hermitian(*shape, dtype="float64"):
    z = matrices(*shape)
    z = z[..., 0] + 1j * z[..., 1] + numpy.diag(numpy.arange(shape[-1]) * 3.0)
    return numpy.stack([(z + z.conj().swapaxes(-1, -2)).real / 2, (z + z.conj().swapaxes(-1, -2)).imag / 2], -1).astype(dtype)


def positive(*shape, dtype="float64"):
    z = matrices(*shape)
    z = z[..., 0] + 1j * z[..., 1]
    z = z @ z.conj().swapaxes(-1, -2) + 2 * numpy.eye(shape[-1])
    return numpy.stack([z.real, z.imag], -1).astype(dtype)


def size(z):
    return jnp.real(z) ** 2 + jnp.imag(z) ** 2


def exponential(z):
    values, vectors = jnp.linalg.eigh(z)
    return (vectors * jnp.exp(values)[..., None, :]) @ jnp.conj(jnp.swapaxes(vectors, -1, -2))


def nearest_unitary(z):
    u, _, v = jnp.linalg.svd(z, full_matrices=False)
    return u @ v


for dtype in ("float64", "float32"):
    near = 1e-3 if dtype == "float32" else 1e-8
    for batch in ((), (2,)) if dtype == "float64" else ((3,),):
        for n in (1, 2, 5):
            regular = added(matrices(*batch, n, n, dtype=dtype), 3)
            right = matrices(*batch, n, 3, dtype=dtype)
            add("cholesky", {}, [positive(*batch, n, n, dtype=dtype)], [0], jnp.linalg.cholesky, near)
            add("inv", {}, [regular], [0], jnp.linalg.inv, near)
            add("det", {}, [regular], [0], jnp.linalg.det, near)
            for part in (0, 1):
                add("slogdet", {"part": part}, [regular], [0], lambda z, part=part: jnp.linalg.slogdet(z)[part], near)
            add("solve", {}, [regular, right], [0, 1], jnp.linalg.solve, near)
            add("solve", {}, [regular, right[..., 0]], [0], lambda a, b: jnp.linalg.solve(a, b.astype(a.dtype)), near)
            add("eigh", {"part": 0}, [hermitian(*batch, n, n, dtype=dtype)], [0], lambda z: jnp.linalg.eigh(z)[0], near)
            add("eigh", {"part": 1}, [hermitian(*batch, n, n, dtype=dtype)], [0], lambda z: size(jnp.linalg.eigh(z)[1]), near)
            add("eigh", {"whole": True}, [hermitian(*batch, n, n, dtype=dtype)], [0], exponential, near)
        for m, n in ((4, 3), (3, 3), (5, 1)):
            for part in (0, 1):
                add("qr", {"part": part}, [matrices(*batch, m, n, dtype=dtype)], [0], lambda z, part=part: jnp.linalg.qr(z)[part], near)
            add("lstsq", {}, [matrices(*batch, m, n, dtype=dtype), matrices(*batch, m, 2, dtype=dtype)], [0, 1], lambda a, b: jnp.linalg.pinv(a) @ b, near)
        for m, n in ((4, 3), (3, 3), (2, 5)):
            for part in (0, 1, 2):
                add("svd", {"part": part}, [matrices(*batch, m, n, dtype=dtype)], [0],
                    lambda z, part=part: jnp.linalg.svd(z, full_matrices=False)[1] if part == 1 else size(jnp.linalg.svd(z, full_matrices=False)[part]), near)
            add("svd", {"whole": True}, [matrices(*batch, m, n, dtype=dtype)], [0], nearest_unitary, near)
    add("lstsq", {}, [matrices(2, 4, dtype=dtype), matrices(2, dtype=dtype)], [0, 1], lambda a, b: jnp.linalg.pinv(a) @ b, near)
    for lower in (True, False):
        for transposed in (True, False):
            for unit in (True, False):
                add("triangular_solve", {"upper": not lower, "transposed": transposed, "unit": unit},
                    [added(matrices(2, 4, 4, dtype=dtype), 3), matrices(2, 4, 3, dtype=dtype)], [0, 1],
                    lambda a, b, l=lower, t=transposed, u=unit: jax.scipy.linalg.solve_triangular(a, b, trans=int(t), lower=l, unit_diagonal=u), near)
    for n in (1, 2, 3, 8, 13):
        for axis in (0, 1):
            for reverse in (False, True):
                shape = (n, 3) if axis == 0 else (2, n)
                add("cumprod", {"axis": axis, "reverse": reverse}, [pairs(*shape, dtype=dtype)], [0],
                    lambda z, a=axis, r=reverse: jnp.flip(jnp.cumprod(jnp.flip(z, a), axis=a), a) if r else jnp.cumprod(z, axis=a))
    few = numpy.round(matrices(3, 20, dtype=dtype) * 2) / 2  # equal ones
    for axis in (0, 1):
        for z in (few, matrices(4, 6, dtype=dtype)):
            add("sort", {"axis": axis}, [z], [0], lambda z, a=axis: jnp.sort(z, axis=a), gradients=z is not few)
            add("argsort", {"axis": axis}, [z], [0], lambda z, a=axis: jnp.argsort(z, axis=a).astype("int32"), gradients=False)
    add("round", {}, [matrices(5, dtype=dtype) * 3], [0], jnp.round, gradients=False)

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/complex.safetensors", {"cases": json.dumps(cases), "source": f"JAX {jax.__version__} on CPU"})
print(f"{len(cases)} cases")
