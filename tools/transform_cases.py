#!/usr/bin/env python3
"""Writes tests/transforms/cases.safetensors and loops.safetensors: what JAX's transformations give, which tests/transforms_test.c and
tests/transforms_loops_test.c compare berth with.

Each case is a function of arrays; the file has its inputs as NAME.in.I and its results as NAME.out.I. Needs jax, numpy and safetensors from
PyPI (pip install jax safetensors). Usage: tools/transform_cases.py [FOLDER]"""
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", False)
draw = numpy.random.default_rng(20261123)


def numbers(*shape, dtype="float64", low=-1.5, high=1.5):
    return draw.uniform(low, high, shape).astype(dtype)


def integers(low, high, *shape):
    return draw.integers(low, high, shape, dtype="int32")


# ---- programs, which tests/transforms_test.c has too


def mlp_loss(w1, b1, w2, b2, x, y):
    return jnp.sum((jnp.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2)


def attention(q, k, v):
    return jax.nn.softmax(q @ k.T / 2.0, -1) @ v


def wave(x):
    return jnp.sin(x) * jnp.sum(x * x) + jnp.cumsum(jnp.exp(-x))


def kernel(x, y):
    return jnp.exp(-jnp.sum(jnp.abs(x - y)))


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def convolution(x, w):
    return jax.lax.conv_general_dilated(x, w, (2, 1), ((1, 0), (1, 2)))


def row_loss(table, indices, targets):
    logits = jnp.take(table, indices, axis=0).sum(0)
    return jax.nn.logsumexp(logits) - logits[targets]


def ordered(x):
    return jnp.sort(x) * jnp.arange(x.size) + jnp.max(x) * jnp.prod(x)


def jvp(f, primals, tangents):
    return jax.jvp(f, primals, tangents)[1]


# ---- cases: name, inputs, function

MLP = [numbers(4, 5), numbers(5), numbers(5, 3), numbers(3)]
CASES = [
    ("per_example_gradients", MLP + [numbers(6, 4), numbers(6, 3)],
     jax.vmap(jax.grad(mlp_loss, (0, 1, 2, 3)), (None, None, None, None, 0, 0))),
    ("per_example_gradients_f32", [x.astype("float32") for x in MLP] + [numbers(6, 4, dtype="float32"), numbers(6, 3, dtype="float32")],
     jax.vmap(jax.grad(mlp_loss, (0, 1, 2, 3)), (None, None, None, None, 0, 0))),
    ("mlp_hvp", MLP + [numbers(6, 4), numbers(6, 3), numbers(4, 5), numbers(5, 3)],
     lambda w1, b1, w2, b2, x, y, v1, v2: jvp(jax.grad(lambda w1, w2: mlp_loss(w1, b1, w2, b2, x, y), (0, 1)), (w1, w2), (v1, v2))),
    ("attention_jvp", [numbers(3, 4), numbers(5, 4), numbers(5, 2), numbers(3, 4), numbers(5, 4), numbers(5, 2)],
     lambda q, k, v, dq, dk, dv: jvp(attention, (q, k, v), (dq, dk, dv))),
    ("attention_vmap", [numbers(2, 3, 4), numbers(5, 4, 2), numbers(5, 2)], jax.vmap(attention, (0, 2, None), 1)),
    ("attention_jacobian", [numbers(2, 3), numbers(4, 3), numbers(4, 2)], lambda q, k, v: jax.jacobian(lambda k: attention(q, k, v))(k)),
    ("wave_jacobian", [numbers(5)], jax.jacobian(wave)),
    ("wave_hessian", [numbers(4)], jax.hessian(lambda x: jnp.sum(wave(x) ** 2))),
    ("wave_third", [numbers(3), numbers(3)], lambda x, v: jax.jacobian(jax.grad(lambda x: jvp(wave, (x,), (v,)).sum()))(x)),
    ("wave_batched_jacobian", [numbers(3, 4)], jax.vmap(jax.jacobian(wave))),
    ("kernel_table", [numbers(3, 2), numbers(4, 2)], jax.vmap(jax.vmap(kernel, (None, 0)), (0, None))),
    ("layer_norm_jvp", [numbers(3, 6), numbers(6), numbers(6), numbers(3, 6), numbers(6)],
     lambda x, s, b, dx, ds: jvp(lambda x, s: layer_norm(x, s, b), (x, s), (dx, ds))),
    ("layer_norm_jvp_f32", [numbers(3, 6, dtype="float32"), numbers(6, dtype="float32"), numbers(6, dtype="float32"),
                            numbers(3, 6, dtype="float32"), numbers(6, dtype="float32")],
     lambda x, s, b, dx, ds: jvp(lambda x, s: layer_norm(x, s, b), (x, s), (dx, ds))),
    ("convolution_vmap", [numbers(3, 2, 2, 5, 4), numbers(3, 3, 2, 3, 2)], jax.vmap(convolution)),
    ("convolution_shared", [numbers(2, 2, 5, 4), numbers(3, 2, 3, 2, 3)], jax.vmap(convolution, (None, 4), 0)),
    ("convolution_jvp", [numbers(2, 2, 5, 4), numbers(3, 2, 3, 2), numbers(2, 2, 5, 4), numbers(3, 2, 3, 2)],
     lambda x, w, dx, dw: jvp(convolution, (x, w), (dx, dw))),
    ("row_gradients", [numbers(7, 4), integers(-7, 7, 5, 3), integers(0, 4, 5)], jax.vmap(jax.grad(row_loss), (None, 0, 0))),
    ("row_gradients_of_each", [numbers(5, 7, 4), integers(-7, 7, 5, 3), integers(0, 4, 5)], jax.vmap(jax.grad(row_loss))),
    ("columns_taken", [numbers(3, 2, 6), integers(-8, 8, 3, 4)], jax.vmap(lambda x, i: jnp.take(x, i, axis=1, mode="fill"))),
    ("parts_replaced", [numbers(4, 6, 2), numbers(4, 3, 2), integers(0, 8, 4)],
     jax.vmap(lambda x, u, i: jax.lax.dynamic_update_slice_in_dim(x, u, i, 0))),
    ("parts_taken", [numbers(6, 2), integers(0, 8, 4)], jax.vmap(lambda x, i: jax.lax.dynamic_slice_in_dim(x, i, 3, 0), (None, 0))),
    ("ordered_jvp", [numbers(6), numbers(6)], lambda x, v: jvp(ordered, (x,), (v,))),
    ("ordered_vmap", [numbers(6, 3)], jax.vmap(ordered, 1, 1)),
    ("ordered_jacobian", [numbers(4)], jax.jacobian(ordered)),
    ("order_vmap", [numbers(5, 4)], jax.vmap(lambda x: (jnp.argsort(x).astype("int32"), jnp.argmax(x).astype("int32")))),
    ("uniform_of_keys", [numpy.stack([numpy.asarray(jax.random.PRNGKey(i)) for i in range(3)])],
     jax.vmap(lambda key: jax.random.uniform(key, (5,), "float32"))),
]


# ---- loops and branches: programs, which tests/transforms_loops_test.c has too


def scanned(w, b, xs, h, reverse=False, step_of=lambda step: step):
    def step(carry, x):
        h, n, total = carry
        h = jnp.tanh(h @ w + x + b)
        return (h, n + 1, total + h * x), (h * x * n, h * h)

    (h, n, total), (ys, squares) = jax.lax.scan(step_of(step), (h, jnp.int32(1), jnp.zeros_like(h)), xs, reverse=reverse)
    return h * n + total + jnp.sin(ys).sum(0) + squares.sum(0)


def scanned_loss(w, b, xs, h):
    return jnp.sum(jnp.sin(scanned(w, b, xs, h)))


def goes_on(carry):
    return (jnp.sum(carry[0] ** 2) < 4) & (carry[1] < 5)


def grow(b):
    return lambda carry: (carry[0] * 1.5 + jnp.sin(b), carry[1] + 1)


def looped(b, h):
    h, n = jax.lax.while_loop(goes_on, grow(b), (h, jnp.int32(0)))
    return h * n


def looped_at_most(b, h):
    """The same as a scan, since JAX has no gradient of a while_loop."""

    def step(carry, _):
        return jax.lax.cond(goes_on(carry), grow(b), lambda carry: carry, carry), None

    (h, n), _ = jax.lax.scan(step, (h, jnp.int32(0)), None, length=6)
    return h * n


def branched(b, x):
    return jax.lax.cond(jnp.sum(x) > 0, lambda x: (jnp.sin(x) * b, x * x), lambda x: (x + 1, jnp.cumsum(x * b)), x)


def branched_sum(b, x):
    first, second = branched(b, x)
    return jnp.sum(jnp.sin(first) * second)


def grid(w, rows, h):
    """A scan in a scan, whose steps are branches, one of which is a loop."""

    def inner(h, x):
        x = jnp.tanh(x + h)
        h = jax.lax.cond(jnp.sum(x) > 0, lambda h: looped_at_most(x, 0.3 * h), lambda h: h @ w, h)
        return 0.5 * h, h + x

    def outer(h, row):
        h, ys = jax.lax.scan(inner, h, row)
        return jnp.sin(h), ys.sum(0)

    h, ys = jax.lax.scan(outer, h, rows)
    return h + ys.sum(0)


def grid_loss(w, rows, h):
    return jnp.sum(jnp.sin(grid(w, rows, h)))


def root_or_nothing(x):
    return jax.lax.cond(x > 0, jnp.sqrt, jnp.zeros_like, x)


def hvp(f, primals, vectors):
    return jvp(jax.grad(f, tuple(range(len(primals)))), primals, vectors)


ALL = (0, 1, 2, 3)
CELL = [numbers(3, 3), numbers(3), numbers(4, 3), numbers(3)]
CELL_MOVES = [numbers(3, 3), numbers(3), numbers(4, 3), numbers(3)]
GRID = [numbers(3, 3), numbers(2, 3, 3), numbers(3)]
GRID_MOVES = [numbers(3, 3), numbers(2, 3, 3), numbers(3)]
STARTS = numbers(5, 3, low=-0.9, high=0.9)
LOOP_CASES = [
    ("scan", CELL, scanned),
    ("scan_reverse", CELL, lambda *x: scanned(*x, reverse=True)),
    ("scan_grad", CELL, jax.grad(scanned_loss, ALL)),
    ("scan_grad_f32", [x.astype("float32") for x in CELL], jax.grad(scanned_loss, ALL)),
    ("scan_reverse_grad", CELL, jax.grad(lambda *x: jnp.sum(jnp.sin(scanned(*x, reverse=True))), ALL)),
    ("scan_checkpoint_grad", CELL, jax.grad(lambda *x: jnp.sum(jnp.sin(scanned(*x, step_of=jax.checkpoint))), ALL)),
    ("scan_jvp", CELL + CELL_MOVES, lambda *x: jvp(scanned, x[:4], x[4:])),
    ("scan_reverse_jvp", CELL + CELL_MOVES, lambda *x: jvp(lambda *x: scanned(*x, reverse=True), x[:4], x[4:])),
    ("scan_hvp", CELL + CELL_MOVES, lambda *x: hvp(scanned_loss, x[:4], x[4:])),
    ("scan_jacobian", CELL, jax.jacobian(scanned, 3)),
    ("scan_hessian", CELL, jax.hessian(scanned_loss, 1)),
    ("scan_vmap", CELL[:2] + [numbers(4, 2, 3), numbers(3, 2)], jax.vmap(scanned, (None, None, 1, 1), 1)),
    ("scan_vmap_weights", [numbers(2, 3, 3)] + CELL[1:], jax.vmap(scanned, (0, None, None, None))),
    ("scan_vmap_grad", CELL[:2] + [numbers(2, 4, 3), numbers(2, 3)], jax.vmap(jax.grad(scanned_loss, ALL), (None, None, 0, 0))),
    ("scan_grad_vmap", CELL[:2] + [numbers(2, 4, 3), numbers(2, 3)],
     jax.grad(lambda *x: jnp.sum(jax.vmap(scanned_loss, (None, None, 0, 0))(*x) ** 2), ALL)),
    ("scan_vmap_hvp", CELL + CELL_MOVES[:3] + [numbers(2, 3)],
     jax.vmap(lambda *x: hvp(scanned_loss, x[:4], x[4:]), (None,) * 7 + (0,))),
    ("scan_vmap_vmap", CELL[:1] + [numbers(3, 3), numbers(2, 4, 3), numbers(3)],
     jax.vmap(jax.vmap(scanned, (None, 0, None, None)), (None, None, 0, None))),
    ("while", [numbers(3), STARTS[0]], looped),
    ("while_jvp", [numbers(3), STARTS[1], numbers(3), numbers(3)], lambda *x: jvp(looped, x[:2], x[2:])),
    ("while_grad", [numbers(3), STARTS[2]], jax.grad(lambda *x: jnp.sum(jnp.sin(looped_at_most(*x))), (0, 1))),
    ("while_hvp", [numbers(3), STARTS[3], numbers(3), numbers(3)],
     lambda *x: hvp(lambda *x: jnp.sum(jnp.sin(looped_at_most(*x))), x[:2], x[2:])),
    ("while_vmap", [numbers(3), STARTS], jax.vmap(looped, (None, 0))),
    ("while_vmap_jvp", [numbers(3), STARTS, numbers(3), numbers(5, 3)],
     jax.vmap(lambda *x: jvp(looped, x[:2], x[2:]), (None, 0, None, 0))),
    ("while_vmap_grad", [numbers(3), STARTS],
     jax.vmap(jax.grad(lambda *x: jnp.sum(jnp.sin(looped_at_most(*x))), (0, 1)), (None, 0))),
    ("cond_yes", [numbers(3), numbers(3, low=0.1)], branched),
    ("cond_yes_grad", [numbers(3), numbers(3, low=0.1)], jax.grad(branched_sum, (0, 1))),
    ("cond_no_grad", [numbers(3), numbers(3, high=-0.1)], jax.grad(branched_sum, (0, 1))),
    ("cond_jvp", [numbers(3), numbers(3), numbers(3), numbers(3)], lambda *x: jvp(branched, x[:2], x[2:])),
    ("cond_hvp", [numbers(3), numbers(3), numbers(3), numbers(3)], lambda *x: hvp(branched_sum, x[:2], x[2:])),
    ("cond_vmap", [numbers(3), numbers(4, 3)], jax.vmap(branched, (None, 0))),
    ("cond_vmap_shared", [numbers(4, 3), numbers(3)], jax.vmap(branched, (0, None))),
    ("cond_vmap_grad", [numbers(3), numbers(4, 3)], jax.vmap(jax.grad(branched_sum, (0, 1)), (None, 0))),
    ("cond_grad_vmap", [numbers(3), numbers(4, 3)], jax.grad(lambda *x: jnp.sum(jax.vmap(branched_sum, (None, 0))(*x)), (0, 1))),
    ("cond_jvp_vmap", [numbers(3), numbers(4, 3), numbers(3), numbers(4, 3)],
     lambda *x: jvp(jax.vmap(branched, (None, 0)), x[:2], x[2:])),
    ("nested", GRID, grid),
    ("nested_grad", GRID, jax.grad(grid_loss, (0, 1, 2))),
    ("nested_hvp", GRID + GRID_MOVES, lambda *x: hvp(grid_loss, x[:3], x[3:])),
    ("nested_vmap_grad", GRID[:2] + [numbers(3, 3)], jax.vmap(jax.grad(grid_loss, (0, 1, 2)), (None, None, 0))),
    ("nested_jvp_vmap", GRID[:2] + [numbers(3, 3)] + GRID_MOVES[:2] + [numbers(3, 3)],
     lambda *x: jvp(jax.vmap(grid, (None, None, 0)), x[:3], x[3:])),
    ("root_vmap_grad", [numpy.asarray([-1.0, 0.0, 4.0])], jax.vmap(jax.grad(root_or_nothing))),
    ("root_grad_vmap", [numpy.asarray([-1.0, 0.0, 4.0])], jax.grad(lambda x: jnp.sum(jax.vmap(root_or_nothing)(x)))),
    ("root_jvp_vmap", [numpy.asarray([-1.0, 0.0, 4.0]), numpy.ones(3)], lambda x, v: jvp(jax.vmap(root_or_nothing), (x,), (v,))),
]


def write(cases, path):
    tensors = {}
    for name, inputs, function in cases:
        results = function(*(jnp.asarray(x) for x in inputs))
        results = results if isinstance(results, (tuple, list)) else [results]
        tensors.update({f"{name}.in.{i}": numpy.ascontiguousarray(x) for i, x in enumerate(inputs)})
        tensors.update({f"{name}.out.{i}": numpy.ascontiguousarray(x) for i, x in enumerate(results)})
    save_file(tensors, path, {"made_with": f"JAX {jax.__version__}"})


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/transforms"
    folder.mkdir(exist_ok=True)
    write(CASES, folder / "cases.safetensors")
    write(LOOP_CASES, folder / "loops.safetensors")


main()
