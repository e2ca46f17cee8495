"""Training steps of the models of src/cli/bench_models.c in JAX."""
import jax
import jax.numpy as jnp

from common import CHECKED_STEPS, MODELS, Row, model_parameters


def conv_block(x, w, b):
    x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2) + b[:, None, None])
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def conv_loss(p, x, y):
    x = conv_block(conv_block(x, p[0], p[1]), p[2], p[3]).reshape(len(x), -1)
    logits = jax.nn.relu(x @ p[4] + p[5]) @ p[6] + p[7]
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


def vae_loss(p, x, noise):
    h = jax.nn.relu(x @ p[0] + p[1])
    mean, log_variance = h @ p[2] + p[3], h @ p[4] + p[5]
    z = mean + noise * jnp.exp(0.5 * log_variance)
    logits = jax.nn.relu(z @ p[6] + p[7]) @ p[8] + p[9]
    pixels = (jnp.maximum(logits, 0) - logits * x + jnp.log1p(jnp.exp(-jnp.abs(logits)))).sum()
    return (pixels - 0.5 * (1 + log_variance - mean**2 - jnp.exp(log_variance)).sum()) / len(x)


def training(inputs, parameters, loss_of, rate):
    """Steps of SGD. inputs(), parameters(): NumPy arrays."""

    def one(values, *given):
        loss, grads = jax.value_and_grad(loss_of)(values, *given)
        return [value - rate * grad for value, grad in zip(values, grads)], loss

    def prepare():
        given = [jnp.asarray(x) for x in inputs()]
        call = jax.jit(one, donate_argnums=0)
        state = {"values": [jnp.array(value) for value in parameters()]}

        def run(repetition):
            state["values"], loss = call(state["values"], *given)
            return jax.block_until_ready((state["values"], loss))[1]

        def check():
            state["values"] = [jnp.array(value) for value in parameters()]
            return jnp.stack([run(0) for _ in range(CHECKED_STEPS)])

        return Row(run, check)

    return prepare


def model_step(row, loss_of):
    inputs, _, rate = MODELS[row]
    return training(lambda: inputs, lambda: model_parameters(row), loss_of, rate)


MODEL_ROWS = {"conv_step": model_step("conv_step", conv_loss), "vae_step": model_step("vae_step", vae_loss)}
