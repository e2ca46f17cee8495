import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy
from jax._src import xla_bridge

from common import (ADDS, CALLS, CHECKED_STEPS, CONVS, DEVICE, INPUTS, LINEAR_KINDS, LINEAR_SIDES, MILLION, NETWORKS, PLACES, PRODUCT_KINDS,
                    PRODUCT_SIDES, SCAN_STEPS, TOKENS, WHILE_STEPS, Row, batch, gru_inputs, new_function, parameters, plain, resnet18, startup, thin_products)
from jax_gpt import GPT_ROWS
from jax_training import MODEL_ROWS

PLUGIN = os.environ.get("BERTH_BENCH_PLUGIN")  # of PJRT, whose client is used in place of JAX's own
if PLUGIN:
    xla_bridge.register_plugin("plugin", library_path=PLUGIN)
    jax.config.update("jax_platforms", "plugin")
if DEVICE != "cpu":
    jax.config.update("jax_default_matmul_precision", "highest")  # float32 as berth's, not TF32
VERSIONS = {"JAX": jax.__version__}


def wait(result):
    return jax.block_until_ready(result)


def to_numpy(result):
    return numpy.asarray(result.astype(jnp.float32) if result.dtype == jnp.bfloat16 else result)


def eager(row, function):
    return lambda: plain(row, function, jnp.asarray)


def compiled(row, function):
    return lambda: plain(row, jax.jit(function), jnp.asarray)


def gradients(row, function):
    """Of all inputs but the last one, which is the gradient of the result."""

    def prepare():
        *values, d = map(jnp.asarray, INPUTS[row]())
        call = jax.jit(lambda d, *values: jax.vjp(function, *values)[1](d))
        return Row(lambda repetition: call(d, *values), lambda: jnp.concatenate([x.reshape(-1) for x in call(d, *values)]))

    return prepare


def conv(row):
    *_, groups, _, stride, padding = CONVS[row]
    return lambda x, w: jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2, feature_group_count=groups)


def conv_and_gradients(x, w, d):
    y, back = jax.vjp(conv("conv3x3"), x, w)
    return [y, *back(d)]


def conv_gradients():
    x, w, d = map(jnp.asarray, INPUTS["conv_grad"]())
    call = jax.jit(conv_and_gradients)
    return Row(lambda repetition: call(x, w, d), lambda: jnp.concatenate([part.reshape(-1) for part in call(x, w, d)]))


def attention(q, k, v, causal=False):
    """JAX's axes are [batch, length, heads, depth]."""
    turned = [x.swapaxes(1, 2) for x in (q, k, v)]
    return jax.nn.dot_product_attention(*turned, is_causal=causal).swapaxes(1, 2)


def attention_and_gradients(q, k, v, d):
    y, back = jax.vjp(partial(attention, causal=True), q, k, v)
    return [y, *back(d)]


def attention_gradients():
    inputs = list(map(jnp.asarray, INPUTS["attention_grad"]()))
    call = jax.jit(attention_and_gradients)
    return Row(lambda repetition: call(*inputs), lambda: jnp.concatenate([part.reshape(-1) for part in call(*inputs)]))


def add_token(carry, token):
    keys, values, count = carry
    q, k, v = token
    keys, values = (jax.lax.dynamic_update_slice(x, y, (0, 0, count, 0)) for x, y in ((keys, k), (values, v)))
    turned = [x.swapaxes(1, 2) for x in (q, keys, values)]
    out = jax.nn.dot_product_attention(*turned, key_value_seq_lengths=jnp.full((1,), count + 1))
    return (keys, values, count + 1), out.swapaxes(1, 2)


def kv_cache():
    q, k, v, keys, values = map(jnp.asarray, INPUTS["kv_cache"]())
    call = jax.jit(lambda q, k, v, keys, values: jax.lax.scan(add_token, (keys, values, jnp.int32(PLACES - TOKENS)), (q, k, v))[1])
    return Row(lambda repetition: call(q, k, v, keys, values), steps=TOKENS)


def conv_and_norm(x, w, stride, scale, bias):
    pad = w.shape[-1] // 2
    y = jax.lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2)
    return y * scale[:, None, None] + bias[:, None, None]


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1)))


def root_minus_log(x):
    return x**0.5 - jnp.log(jnp.abs(x))


def unit_vectors(x):
    return x / jnp.sqrt((x * x).sum(1, keepdims=True))


def accelerations(x):
    apart = x[None] - x[:, None]
    square = (apart * apart).sum(2, keepdims=True) + 0.01
    return (apart / (square * jnp.sqrt(square))).sum(1)


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def dependent_adds(x, y):
    for _ in range(ADDS):
        x = x + y
    return wait(x)


# ---- random numbers


def uniform(key):
    return jax.random.uniform(key, (100 * MILLION,), jnp.float32)


def squares(x):
    return x**2 - 0.5


def cubes(y):
    return y**3 - 0.2


def random100m(transform, partitionable):
    """In JAX's original layout, which is berth's, or in the partitionable one, which JAX prefers."""

    def prepare():
        with jax.threefry_partitionable(partitionable):
            key = jax.random.PRNGKey(0)
        whole = transform(lambda key: cubes(squares(uniform(key))))

        def run(repetition):
            with jax.threefry_partitionable(partitionable):
                return whole(key)

        return Row(run, same_numbers=not partitionable)

    return prepare


def drawn(function):
    """In JAX's original layout."""

    def prepare():
        key, whole = jax.random.PRNGKey(0), jax.jit(function)

        def run(repetition):
            with jax.threefry_partitionable(False):
                return whole(key)

        return Row(run)

    return prepare


def random100m_mixed(transform):
    def prepare():
        first, second = (jax.devices() + jax.devices("cpu"))[:2]
        key = jax.device_put(jax.random.PRNGKey(0), first)
        parts = [transform(part) for part in (uniform, squares, cubes)]

        def run(repetition):
            with jax.threefry_partitionable(False):
                x = jax.device_put(parts[0](key), second)
                return parts[2](jax.device_put(parts[1](x), first))

        return Row(run)

    return prepare


def identity(function):
    return function


# ---- a new function, training


def compile_new():
    x = jnp.asarray(INPUTS["compile"]()[0])

    def first_call(repetition):
        return jax.jit(new_function(repetition, jnp.sin, jnp.cos, jnp.tanh, jnp.arctan, jnp.maximum))(x)

    return Row(first_call)


def step(name):
    network = NETWORKS[name]

    def loss_of(values, x, y):
        for i in range(0, len(values), 2):
            x = x @ values[i] + values[i + 1]
            if i + 2 < len(values):
                x = jax.nn.relu(x)
        if network.squares:
            return ((x - y) ** 2).mean()
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    def one(values, x, y):
        loss, grads = jax.value_and_grad(loss_of)(values, x, y)
        return [value - network.rate * grad for value, grad in zip(values, grads)], loss

    def prepare():
        x, y = map(jnp.asarray, batch(network))
        compiled_step = jax.jit(one, donate_argnums=0)
        state = {"values": [jnp.array(value) for value in parameters(network)]}

        def run(repetition, steps=network.steps):
            for _ in range(steps):
                state["values"], loss = compiled_step(state["values"], x, y)
            return wait((state["values"], loss))

        def check():
            state["values"] = [jnp.array(value) for value in parameters(network)]
            return jnp.concatenate([value.reshape(-1) for value in run(0, CHECKED_STEPS)[0]])

        return Row(run, check, network.steps)

    return prepare


# ---- batches of functions, second derivatives


def square_loss(w, v, x):
    return jnp.sum((jnp.tanh(x @ w) @ v) ** 2)


def example_squares(w, v, x):
    return sum(jnp.sum(gradient**2) for gradient in jax.grad(square_loss, (0, 1))(w, v, x))


def example_squares_by_hand(w, v, x):
    hidden = jnp.tanh(x @ w)
    by_output = 2 * (hidden @ v)
    by_hidden = by_output @ v.T * (1 - hidden**2)
    by_v, by_w = hidden[:, :, None] * by_output[:, None, :], x[:, :, None] * by_hidden[:, None, :]
    return jnp.sum(by_w**2, (1, 2)) + jnp.sum(by_v**2, (1, 2))


def curvature(w, v, x):
    return jax.jvp(lambda w: jax.grad(square_loss)(w, v, x), (w,), (w,))[1]


# ---- loops


def gru_rows(x, input_weight, input_bias, weight, bias):
    def cell(h, row):
        from_x, from_h = jnp.split(row, 3, axis=1), jnp.split(h @ weight + bias, 3, axis=1)
        r, z = jax.nn.sigmoid(from_x[0] + from_h[0]), jax.nn.sigmoid(from_x[1] + from_h[1])
        n = jnp.tanh(from_x[2] + r * from_h[2])
        h = n + z * (h - n)
        return h, h

    return jax.lax.scan(cell, jnp.zeros((x.shape[1], weight.shape[0])), x @ input_weight + input_bias)[1]


def gru_forward():
    values, function = list(map(jnp.asarray, gru_inputs())), jax.jit(gru_rows)
    return Row(lambda repetition: function(*values))


def gru_step():
    values = list(map(jnp.asarray, gru_inputs()))
    function = jax.jit(jax.value_and_grad(lambda *values: (gru_rows(*values) ** 2).sum(), argnums=tuple(range(len(values)))))

    def check():
        loss, grads = function(*values)
        return jnp.concatenate([loss.reshape(1), *(grad.reshape(-1) for grad in grads)])

    return Row(lambda repetition: function(*values), check)


def scan_steps():
    x = jnp.asarray(INPUTS["scan_steps"]()[0])
    function = jax.jit(lambda x: jax.lax.scan(lambda h, _: (h * 0.999 + 1, None), x, length=SCAN_STEPS)[0])
    return Row(lambda repetition: function(x), steps=SCAN_STEPS)


def while_steps():
    x = jnp.float32(0)
    function = jax.jit(lambda x: jax.lax.while_loop(lambda h: h < WHILE_STEPS, lambda h: h + 1, x))
    return Row(lambda repetition: function(x), steps=WHILE_STEPS)


# ---- products in each precision, launches


def product(row, kind):
    if kind == "bf16":
        return lambda: plain(row, jax.jit(jnp.matmul), lambda array: jnp.asarray(array).astype(jnp.bfloat16))
    precision = {"f32": "highest", "tf32": "TF32_TF32_F32", "fast_bf16": "BF16_BF16_F32"}[kind]
    if kind != "f32":
        precision = getattr(jax.lax.DotAlgorithmPreset, precision)
    return compiled(row, lambda a, b: jnp.matmul(a, b, precision=precision))


def launches():
    function, x = jax.jit(lambda x: x + 1), jnp.asarray(INPUTS["launch"]()[0])

    def run(repetition):
        for _ in range(CALLS):
            result = function(x)
        return result

    return Row(run, steps=CALLS)


def waited_launches():
    function, x = jax.jit(lambda x: x + 1), jnp.asarray(INPUTS["launch_wait"]()[0])

    def run(repetition):
        for _ in range(CALLS):
            result = wait(function(x))
        return result

    return Row(run, steps=CALLS)


# ---- copies from and to the host


def in_memory(kind):
    """Of the first device: "device", or memory of the host that is pinned for it, "pinned_host"."""
    return jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=kind)


def upload(row, pinned):
    def prepare():
        host = INPUTS[row]()[0]
        if pinned:
            host = wait(jax.device_put(host, in_memory("pinned_host")))
        return Row(lambda repetition: jax.device_put(host, in_memory("device")))

    return prepare


def download(row):
    """Into memory that JAX makes each time. An array keeps what it was copied to; each run has an array of its own, of the same bytes."""

    def prepare():
        x = wait(jax.device_put(INPUTS[row]()[0], in_memory("device")))
        return Row(lambda repetition: numpy.asarray(jax.make_array_from_single_device_arrays(x.shape, x.sharding, [x])))

    return prepare


def download_pinned():
    x = wait(jax.device_put(INPUTS["download_pinned"]()[0], in_memory("device")))
    return Row(lambda repetition: jax.device_put(x, in_memory("pinned_host")))


# ---- the rows

EAGER = {
    "elementwise": eager("elementwise", root_minus_log),
    "linspace": lambda: Row(lambda i: root_minus_log(jnp.linspace(0, 100, 10 * MILLION + i, dtype=jnp.float32))),
    "random100m": random100m(identity, False),
    **{f"matmul{kind}": eager(f"matmul{kind}", jnp.matmul) for kind in ("1024", "2048", "4096", "_small")},
    "softmax": eager("softmax", jax.nn.softmax),
    "sum": eager("sum", jnp.sum),
    "sum_axis0": eager("sum_axis0", lambda x: x.sum(0)),
    "sum_axis1": eager("sum_axis1", lambda x: x.sum(1)),
    "transpose_add": eager("transpose_add", lambda x: x + x.T),
    "broadcast": eager("broadcast", lambda x, row, column: x * row + column),
    "gather": eager("gather", lambda table, indices: jnp.take(table, indices, axis=0)),
    "thin_product": eager("thin_product", thin_products),
    "fft": eager("fft", jnp.fft.fft),
    "fft_lines": eager("fft_lines", jnp.fft.fft),
    "cholesky": eager("cholesky", jnp.linalg.cholesky),
    "scatter_rows": eager("scatter_rows", lambda x, indices, rows: x.at[indices].add(rows)),
    "dependent_adds": eager("dependent_adds", dependent_adds),
    "startup": lambda: startup("import jax.numpy as n; print(*(n.array([1., 2.]) + n.array([3., 4.])))"),
}
JIT = {
    "elementwise_compiled": compiled("elementwise_compiled", root_minus_log),
    "random100m": random100m(jax.jit, False),
    "softmax": compiled("softmax", jax.nn.softmax),
    "layer_norm": compiled("layer_norm", layer_norm),
    "sum": compiled("sum", jnp.sum),
    "sum_axis0": compiled("sum_axis0", lambda x: x.sum(0)),
    "short_rows": compiled("short_rows", unit_vectors),
    "narrow_sums": compiled("narrow_sums", lambda x: x.sum(0)),
    "nbody": compiled("nbody", accelerations),
    "sum_axis1": compiled("sum_axis1", lambda x: x.sum(1)),
    "transpose_add": compiled("transpose_add", lambda x: x + x.T),
    "broadcast": compiled("broadcast", lambda x, row, column: x * row + column),
    "gather": compiled("gather", lambda table, indices: jnp.take(table, indices, axis=0)),
    "thin_product": compiled("thin_product", thin_products),
    "fft": compiled("fft", jnp.fft.fft),
    "fft_lines": compiled("fft_lines", jnp.fft.fft),
    "cholesky": compiled("cholesky", jnp.linalg.cholesky),
    "scatter_rows": compiled("scatter_rows", lambda x, indices, rows: x.at[indices].add(rows)),
    "embedding_grad": compiled("embedding_grad", lambda table, indices, d: jax.vjp(lambda x: x[indices], table)[1](d)[0]),
    "sort4m": compiled("sort4m", jnp.sort),
    "sort_rows": compiled("sort_rows", jnp.sort),
    "topk": compiled("topk", lambda x: jax.lax.top_k(x, 5)[0]),
    "permutation": drawn(lambda key: jax.random.permutation(key, MILLION)),
    "normal": drawn(lambda key: jax.random.normal(key, (10 * MILLION,), jnp.float32)),
    "layer_norm_gradient": gradients("layer_norm_gradient", layer_norm),
    "softmax_gradient": gradients("softmax_gradient", jax.nn.softmax),
    **{row: compiled(row, conv(row)) for row in CONVS},
    "attention": compiled("attention", attention),
    "attention_causal": compiled("attention_causal", partial(attention, causal=True)),
    "attention_grad": attention_gradients,
    "kv_cache": kv_cache,
    "conv_grad": conv_gradients,
    **{row: compiled(row, lambda x, weights: resnet18(conv_and_norm, pool, jax.nn.relu, lambda x: x.mean((2, 3)), x, weights))
       for row in ("resnet18", "resnet18_one")},
    "matmul_vmap": compiled("matmul_vmap", jax.vmap(jnp.matmul, (None, 0))),
    "softmax_vmap": compiled("softmax_vmap", jax.vmap(jax.nn.softmax)),
    "gather_vmap": compiled("gather_vmap", jax.vmap(lambda table, index: jnp.take(table, index, axis=0), (None, 0))),
    "example_gradients": compiled("example_gradients", jax.vmap(example_squares, (None, None, 0))),
    "example_gradients_by_hand": compiled("example_gradients_by_hand", example_squares_by_hand),
    "hvp": compiled("hvp", curvature),
    "compile": compile_new,
    **{name: step(name) for name in NETWORKS},
    **MODEL_ROWS, **GPT_ROWS,
    "gru_forward": gru_forward,
    "gru_step": gru_step,
    "scan_steps": scan_steps,
    "while_steps": while_steps,
}
JIT |= {f"large_{row}": compiled(f"large_{row}", function) for row, function in {
    "elementwise": root_minus_log, "sum": jnp.sum, "softmax": jax.nn.softmax, "layer_norm": layer_norm,
    "transpose_add": lambda x: x + x.T, "gather": lambda table, indices: jnp.take(table, indices, axis=0)}.items()}
JIT |= {f"matmul_{kind}_{n}": product(f"matmul_{kind}_{n}", kind) for kind in PRODUCT_KINDS for n in PRODUCT_SIDES}
LINEAR = {"cholesky": jnp.linalg.cholesky, "solve": jnp.linalg.solve, "inv": jnp.linalg.inv, "qr": lambda x: jnp.abs(jnp.linalg.qr(x)[1]),
          "eigh": lambda x: jnp.linalg.eigh(x)[0], "svd": lambda x: jnp.linalg.svd(x, full_matrices=False)[1]}
JIT |= {f"{kind}_{n}": compiled(f"{kind}_{n}", LINEAR[kind]) for kind in LINEAR_KINDS for n in LINEAR_SIDES}
JIT["inv_many"] = compiled("inv_many", jnp.linalg.inv)
JIT |= {"launch": launches, "launch_wait": waited_launches}
if DEVICE != "cpu" or PLUGIN:
    EAGER |= {"upload": upload("upload", False), "download": download("download")}
if DEVICE != "cpu":
    EAGER |= {"upload_pinned": upload("upload_pinned", True), "download_pinned": download_pinned}
if os.environ.get("BERTH_BENCH_TWO_DEVICES"):
    PEERS = {"jax": {"random100m_mixed": random100m_mixed(identity)}, "jax_jit": {"random100m_mixed": random100m_mixed(jax.jit)}}
else:
    PEERS = {"jax": EAGER, "jax_jit": JIT, "jax_jit_partitionable": {"random100m": random100m(jax.jit, True)}}
