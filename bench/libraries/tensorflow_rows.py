import os

import tensorflow as tf

from common import ADDS, INPUTS, MILLION, Row, new_function, plain, startup, thin_products

threads = int(os.environ["BERTH_BENCH_THREADS"])
tf.config.threading.set_intra_op_parallelism_threads(threads)
tf.config.threading.set_inter_op_parallelism_threads(threads)
VERSIONS = {"TensorFlow": tf.__version__}


def wait(result):
    return result  # eager work on a CPU is done when the call returns


def to_numpy(result):
    return result.numpy()


def eager(row, function):
    return lambda: plain(row, function, tf.constant)


def compiled(row, function):
    return lambda: plain(row, tf.function(function, jit_compile=True), tf.constant)


def root_minus_log(x):
    return x**0.5 - tf.math.log(tf.abs(x))


def layer_norm(x, scale, bias):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, bias, scale, 1e-5)


def dependent_adds(x, y):
    for _ in range(ADDS):
        x = x + y
    return x


def random100m(repetition):
    return (tf.random.uniform([100 * MILLION]) ** 2 - 0.5) ** 3 - 0.2


def compile_new():
    x = tf.constant(INPUTS["compile"]()[0])

    def first_call(repetition):
        function = new_function(repetition, tf.sin, tf.cos, tf.tanh, tf.atan, tf.maximum)
        return tf.function(function, jit_compile=True)(x)

    return Row(first_call)


PEERS = {
    "tensorflow": {
        "elementwise": eager("elementwise", root_minus_log),
        "linspace": lambda: Row(lambda i: root_minus_log(tf.linspace(0.0, 100.0, 10 * MILLION + i))),
        "random100m": lambda: Row(random100m, same_numbers=False),
        **{f"matmul{kind}": eager(f"matmul{kind}", tf.matmul) for kind in ("1024", "2048", "4096", "_small")},
        "softmax": eager("softmax", tf.nn.softmax),
        "layer_norm": eager("layer_norm", layer_norm),
        "sum": eager("sum", tf.reduce_sum),
        "sum_axis0": eager("sum_axis0", lambda x: tf.reduce_sum(x, 0)),
        "sum_axis1": eager("sum_axis1", lambda x: tf.reduce_sum(x, 1)),
        "transpose_add": eager("transpose_add", lambda x: x + tf.transpose(x)),
        "broadcast": eager("broadcast", lambda x, row, column: x * row + column),
        "gather": eager("gather", tf.gather),
        "thin_product": eager("thin_product", thin_products),
        "dependent_adds": eager("dependent_adds", dependent_adds),
        "startup": lambda: startup("import tensorflow as t; print(*(t.constant([1., 2.]) + t.constant([3., 4.])).numpy())"),
    },
    "tensorflow_xla": {
        "elementwise_compiled": compiled("elementwise_compiled", root_minus_log),
        "softmax": compiled("softmax", tf.nn.softmax),
        "compile": compile_new,
    },
}
