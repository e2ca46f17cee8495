#!/usr/bin/env python3
"""Writes tests/transforms/cases.safetensors: what JAX's transformations give, which tests/transforms_test.c compares berth with.

Each case is a function of arrays; the file has its inputs as NAME.in.I and its results as NAME.out.I. Needs jax, numpy and safetensors from
PyPI (pip install jax safetensors). Usage: tools/transform_cases.py [FILE]"""
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


def main():
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/transforms/cases.safetensors"
    tensors = {}
    for name, inputs, function in CASES:
        results = function(*(jnp.asarray(x) for x in inputs))
        results = results if isinstance(results, (tuple, list)) else [results]
        tensors.update({f"{name}.in.{i}": numpy.ascontiguousarray(x) for i, x in enumerate(inputs)})
        tensors.update({f"{name}.out.{i}": numpy.ascontiguousarray(x) for i, x in enumerate(results)})
    path.parent.mkdir(exist_ok=True)
    save_file(tensors, path, {"made_with": f"JAX {jax.__version__}"})


main()
