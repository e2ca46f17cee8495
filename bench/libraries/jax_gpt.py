"""The training step of src/cli/bench_gpt.c in JAX."""
import jax
import jax.numpy as jnp

from gpt_model import BATCH, HEADS, PLACES, RATE, WIDTH, inputs, layers_of, parameters
from jax_training import training


def norm(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * scale + shift


def attend(qkv):
    q, k, v = jnp.moveaxis(qkv.reshape(BATCH, PLACES, 3, HEADS, WIDTH // HEADS), 2, 0)
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(BATCH, PLACES, WIDTH)


def layer(x, p):
    x = x + attend(norm(x, p[0], p[1]) @ p[2] + p[3]) @ p[4] + p[5]
    return x + jax.nn.gelu(norm(x, p[6], p[7]) @ p[8] + p[9], approximate=False) @ p[10] + p[11]


def loss_of(p, words, following):
    x = p[0][words] + p[1]
    for of_layer in layers_of(p):
        x = layer(x, of_layer)
    logits = norm(x, p[-2], p[-1]) @ p[0].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), following[..., None], -1).mean()


GPT_ROWS = {"gpt_step": training(inputs, parameters, loss_of, RATE)}
