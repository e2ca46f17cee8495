"""What the rows of all libraries share: inputs that berth makes alike (src/cli/bench_inputs.c), shapes, the comparison."""
from collections import namedtuple
from functools import partial
import os
import subprocess
import sys

import numpy

MILLION = 1_000_000
ADDS = 1000
THIN_PRODUCTS = 100
PERIOD = 1_000_003  # after which large inputs repeat themselves
SAMPLE = 1 << 22  # elements of a large result that are compared, at most

DEVICE = os.environ.get("BERTH_BENCH_DEVICE", "cpu")  # "cuda", or the CPU
SHRINK = int(os.environ.get("BERTH_BENCH_SHRINK", "1"))  # what large rows are divided by

# One row as a library does it. run(repetition) gives a result; check(), where there is one, gives what is compared in its place.
# steps: how many are in one run. same_numbers: berth draws the same random numbers; else only means are compared. warm: runs
# come first that are not timed.
Row = namedtuple("Row", "run check steps same_numbers warm", defaults=(None, 1, True, True))


def words(seed, count):
    x = numpy.arange(count, dtype=numpy.uint32)
    x += numpy.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    x ^= x >> 16
    x *= numpy.uint32(0x85EBCA6B)
    x ^= x >> 13
    x *= numpy.uint32(0xC2B2AE35)
    x ^= x >> 16
    return x


def floats(seed, low, high, *shape):
    low, high = numpy.float32(low), numpy.float32(high)
    unit = (words(seed, numpy.prod(shape, dtype=int)) >> 8).astype(numpy.float32) * numpy.float32(2**-24)
    return (low + (high - low) * unit).reshape(shape)


def integers(seed, limit, *shape):
    return (words(seed, numpy.prod(shape, dtype=int)) % numpy.uint32(limit)).astype(numpy.int32).reshape(shape)


def repeated_floats(seed, low, high, *shape):
    count = numpy.prod(shape, dtype=int)
    return numpy.resize(floats(seed, low, high, min(count, PERIOD)), shape)


def numbers(*shape):
    return floats(1, -1, 1, *shape) + numpy.complex64(1j) * floats(2, -1, 1, *shape)


def positive_definite(n):
    x = floats(1, -1, 1, n, n)
    return (x + x.T) * numpy.float32(0.5) + 32 * numpy.eye(n, dtype=numpy.float32)


# ---- the inputs of each row, as NumPy arrays

INPUTS = {
    "elementwise": lambda: [floats(1, 0.5, 100, 10 * MILLION)],
    "elementwise_compiled": lambda: [floats(1, 0.5, 100, 10 * MILLION)],
    "matmul1024": lambda: [floats(seed, -1, 1, 1024, 1024) for seed in (1, 2)],
    "matmul2048": lambda: [floats(seed, -1, 1, 2048, 2048) for seed in (1, 2)],
    "matmul4096": lambda: [floats(seed, -1, 1, 4096, 4096) for seed in (1, 2)],
    "matmul_small": lambda: [floats(seed, -1, 1, 1000, 16, 16) for seed in (1, 2)],
    "thin_product": lambda: [floats(1, -0.15, 0.15, 128, 128), floats(2, -1, 1, 128, 1)],
    "cholesky": lambda: [positive_definite(1024)],
    "fft": lambda: [numbers(1 << 20)],
    "fft_lines": lambda: [numbers(256, 4096)],
    "softmax": lambda: [floats(1, -4, 4, 8192, 1024)],
    "layer_norm": lambda: [floats(1, -4, 4, 8192, 1024), floats(2, 0.5, 1.5, 1024), floats(3, -1, 1, 1024)],
    "sum": lambda: [floats(1, 0, 1, 10 * MILLION)],
    "sum_axis0": lambda: [floats(1, 0, 1, 4096, 4096)],
    "short_rows": lambda: [floats(1, -1, 1, 2 * MILLION, 3)],
    "narrow_sums": lambda: [floats(1, 0, 1, MILLION, 10)],
    "nbody": lambda: [floats(1, -1, 1, 1500, 3)],
    "sum_axis1": lambda: [floats(1, 0, 1, 4096, 4096)],
    "transpose_add": lambda: [floats(1, -1, 1, 4096, 4096)],
    "broadcast": lambda: [floats(1, -1, 1, 8192, 1024), floats(2, -1, 1, 1024), floats(3, -1, 1, 8192, 1)],
    "gather": lambda: [floats(1, -1, 1, 100000, 64), integers(2, 100000, MILLION)],
    "scatter_rows": lambda: [floats(1, -1, 1, 100000, 16), integers(2, 100000, 100000), floats(3, -1, 1, 100000, 16)],
    "embedding_grad": lambda: [floats(1, -1, 1, 50000, 128), integers(2, 50000, 32768), floats(3, -1, 1, 32768, 128)],
    "dependent_adds": lambda: [floats(1, -1, 1, 4), floats(2, -1, 1, 4)],
    "sort4m": lambda: [floats(1, -1, 1, 2048 * 2048)],
    "sort_rows": lambda: [floats(1, -1, 1, 2048, 2048)],
    "topk": lambda: [floats(1, 0, 1, 4096, 4096)],
    "compile": lambda: [floats(1, 0.5, 1.5, 1 << 18)],
}
INPUTS |= {"layer_norm_gradient": lambda: [*INPUTS["layer_norm"](), floats(4, -1, 1, 8192, 1024)],
           "softmax_gradient": lambda: [*INPUTS["softmax"](), floats(2, -1, 1, 8192, 1024)]}
TOKENS, PLACES = 64, 1024  # of kv_cache
# Rows of convolutions: channels, size, outputs, groups, kernel, stride, padding.
CONVS = {"conv3x3": (64, 56, 64, 1, 3, 1, 1), "conv7x7s2": (3, 224, 64, 1, 7, 2, 3), "conv1x1": (256, 56, 64, 1, 1, 1, 0),
         "conv_depthwise": (128, 28, 128, 128, 3, 1, 1)}
INPUTS |= {row: partial(lambda c, size, o, groups, k, *_: [floats(1, -1, 1, 8, c, size, size), floats(2, -1, 1, o, c // groups, k, k)], *conv)
           for row, conv in CONVS.items()}
INPUTS["conv_grad"] = lambda: [*INPUTS["conv3x3"](), floats(3, -1, 1, 8, 64, 56, 56)]
INPUTS |= {"attention": lambda: [floats(1 + i, -1, 1, 8, 8, 512, 64) for i in range(3)],
           "attention_causal": lambda: [floats(1 + i, -1, 1, 1, 16, 2048, 64) for i in range(3)],
           "attention_grad": lambda: [floats(1 + i, -1, 1, 8, 8, 512, 64) for i in range(4)],
           "kv_cache": lambda: [*(floats(1 + i, -1, 1, TOKENS, 1, 12, 1, 64) for i in range(3)), *(floats(4 + i, -1, 1, 1, 12, PLACES, 64) for i in range(2))]}
INPUTS |= {row: partial(lambda images: [floats(1, -1, 1, images, 3, 224, 224), floats(2, -0.05, 0.05, 11688512)], images)
           for row, images in (("resnet18", 8), ("resnet18_one", 1))}


def resnet18(conv, pool, relu, mean, x, weights):
    """conv(x, w, stride, scale, bias): a convolution with "same" padding, and what a batch norm is at inference."""
    at = 0

    def take(*shape):
        nonlocal at
        begin, at = at, at + int(numpy.prod(shape))
        return weights[begin:at].reshape(shape)

    def add(x, outputs, kernel, stride):
        return conv(x, take(outputs, x.shape[1], kernel, kernel), stride, take(outputs) + 1, take(outputs))

    x = pool(relu(add(x, 64, 7, 2)))
    for block in range(8):
        outputs, stride = 64 << block // 2, 2 if block and block % 2 == 0 else 1
        beside = x if x.shape[1] == outputs else add(x, outputs, 1, stride)
        inner = relu(add(x, outputs, 3, stride))
        x = relu(add(inner, outputs, 3, 1) + beside)
    return mean(x) @ take(512, 1000)


INPUTS |= {f"{row}_vmap": INPUTS[of] for row, of in (("matmul", "matmul1024"), ("softmax", "softmax"), ("gather", "gather"))}
INPUTS |= {row: lambda: [floats(1, -0.2, 0.2, 64, 128), floats(2, -0.2, 0.2, 128, 10), floats(3, -1, 1, 256, 64)]
           for row in ("example_gradients", "example_gradients_by_hand", "hvp")}


# ---- large rows (src/cli/bench_rows.c)

ELEMENTS, COLUMNS, GATHERED, SIDE = (64 << 20) // SHRINK, 1024, 64, 8192 // SHRINK
LARGE_INPUTS = {
    "large_elementwise": lambda: [repeated_floats(1, 0.5, 100, ELEMENTS)],
    "large_sum": lambda: [repeated_floats(1, 0, 1, ELEMENTS)],
    "large_softmax": lambda: [repeated_floats(1, -4, 4, ELEMENTS // COLUMNS, COLUMNS)],
    "large_layer_norm": lambda: [repeated_floats(1, -4, 4, ELEMENTS // COLUMNS, COLUMNS), floats(2, 0.5, 1.5, COLUMNS),
                                 floats(3, -1, 1, COLUMNS)],
    "large_transpose_add": lambda: [repeated_floats(1, -1, 1, SIDE, SIDE)],
    "large_gather": lambda: [repeated_floats(1, -1, 1, ELEMENTS // GATHERED, GATHERED),
                             integers(2, ELEMENTS // GATHERED, ELEMENTS // GATHERED)],
}
# What is copied up, and what is copied down (src/cli/bench_copies.c).
LARGE_INPUTS |= {f"{way}load{kind}": lambda seed=seed: [repeated_floats(seed, -1, 1, ELEMENTS)]
                 for seed, way in ((1, "up"), (2, "down")) for kind in ("", "_pinned")}
PRODUCT_KINDS, PRODUCT_SIDES = ("f32", "tf32", "fast_bf16", "bf16"), (1024, 2048, 4096, 8192, 16384)


def product_inputs(side):
    return lambda: [repeated_floats(seed, -1, 1, side, side) for seed in (1, 2)]


LINEAR_KINDS, LINEAR_SIDES = ("cholesky", "solve", "inv", "qr", "eigh", "svd"), (512, 1024, 2048)


def matrix_inputs(kind, n):
    """src/cli/bench_linalg.c"""
    def make():
        x = floats(1, -1, 1, n, n)
        x = (x + x.T) * numpy.float32(0.5) + 64 * numpy.eye(n, dtype=numpy.float32)
        return [x, floats(2, -1, 1, n, 64)] if kind == "solve" else [x]

    return make


INPUTS |= {f"{kind}_{n}": matrix_inputs(kind, n) for kind in LINEAR_KINDS for n in LINEAR_SIDES}
INPUTS["inv_many"] = lambda: [floats(1, -1, 1, 10000, 8, 8) + 8 * numpy.eye(8, dtype=numpy.float32)]
LARGE_INPUTS |= {f"matmul_{kind}_{n}": product_inputs(n // SHRINK) for kind in PRODUCT_KINDS for n in PRODUCT_SIDES}
INPUTS |= LARGE_INPUTS

# ---- rows of launches (src/cli/bench_rows.c)

CALLS, KERNELS, GRAPH_CALLS = 1000, 100, 20
INPUTS |= {row: lambda: [floats(1, -1, 1, 4)] for row in ("launch", "launch_wait", "launch_100", "launch_graph")}


def plain(row, function, to_array, **more):
    """A row that applies a function to its inputs."""
    arrays = [to_array(array) for array in INPUTS[row]()]
    return Row(lambda repetition: function(*arrays), **more)


def thin_products(matrix, x):
    for _ in range(THIN_PRODUCTS):
        x = matrix @ x
    return x


# ---- a new program of five operations (src/cli/bench_start.c)


def program(repetition):
    """The numbers of its operations."""
    number = (repetition * 12347 + 4242) & 0xFFFFFFFF
    return [number >> 3 * i & 7 for i in range(5)]


def new_function(repetition, sin, cos, tanh, atan, maximum):
    kinds = program(repetition)

    def apply(x):
        y = x
        for kind in kinds:
            if kind < 4:
                y = (sin, cos, tanh, atan)[kind](y)
            else:
                y = (y + x, y - x, y * x, None)[kind - 4] if kind < 7 else maximum(y, x)
        return y

    return apply


# ---- training steps (src/cli/bench_steps.c)

Network = namedtuple("Network", "batch sizes squares rate steps")
NETWORKS = {
    "step_small": Network(32, (64, 128, 10), False, 0.1, 200),
    "step_medium": Network(128, (784, 512, 512, 10), False, 0.1, 10),
    "step_large": Network(256, (1024, 4096, 4096, 1024), True, 1.0, 1),
}
CHECKED_STEPS = 5


def parameters(network):
    """W and b of each layer in turn."""
    found = []
    for i, (size_in, size_out) in enumerate(zip(network.sizes, network.sizes[1:])):
        limit = numpy.float32((6 / (size_in + size_out)) ** 0.5)
        found += [floats(10 + 2 * i, -limit, limit, size_in, size_out), numpy.zeros(size_out, numpy.float32)]
    return found


def batch(network):
    x = floats(1, -1, 1, network.batch, network.sizes[0])
    if network.squares:
        return x, floats(2, -1, 1, network.batch, network.sizes[-1])
    return x, integers(2, network.sizes[-1], network.batch)


# ---- training steps of models (src/cli/bench_models.c): inputs, layers as (in, out, places of a filter; 0: dense), rate

MODELS = {
    "conv_step": ([floats(1, 0, 1, 64, 1, 28, 28), integers(2, 10, 64)], ((1, 32, 9), (32, 64, 9), (64 * 49, 128, 0), (128, 10, 0)), 0.05),
    "vae_step": ([floats(1, 0, 1, 128, 784), floats(2, -1.7, 1.7, 128, 20)],
                 ((784, 400, 0), (400, 20, 0), (400, 20, 0), (20, 400, 0), (400, 784, 0)), 1e-3),
}


def model_parameters(row):
    """W and b of each layer in turn."""
    found = []
    for i, (size_in, size_out, places) in enumerate(MODELS[row][1]):
        limit = numpy.float32((6 / ((size_in + size_out) * max(places, 1))) ** 0.5)
        shape = (size_out, size_in, 3, 3) if places else (size_in, size_out)
        found += [floats(10 + 2 * i, -limit, limit, *shape), numpy.zeros(size_out, numpy.float32)]
    return found


# ---- loops (src/cli/bench_loops.c)

SCAN_STEPS, WHILE_STEPS = 1_000_000, 100_000
GRU_STEPS, GRU_BATCH, GRU_INPUT, GRU_HIDDEN = 256, 64, 128, 256
INPUTS |= {"scan_steps": lambda: [floats(1, -1, 1, 16)]}


def gru_inputs():
    """x, then weight [in, 3 * hidden] and bias of the inputs, and of what is carried."""
    found = [floats(1, -1, 1, GRU_STEPS, GRU_BATCH, GRU_INPUT)]
    for i, size in enumerate((GRU_INPUT, GRU_HIDDEN)):
        found += [floats(10 + 2 * i, -0.0625, 0.0625, size, 3 * GRU_HIDDEN), floats(11 + 2 * i, -0.0625, 0.0625, 3 * GRU_HIDDEN)]
    return found


# ---- a process that adds two arrays


def startup(source):
    def run(repetition):
        done = subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE, check=True, text=True)
        return numpy.array([float(word) for word in done.stdout.split()[-2:]], numpy.float32)

    return Row(run)


# ---- comparing

TOLERANCES = {"matmul1024": 1e-4, "matmul2048": 1e-4, "matmul4096": 2e-4, "matmul_vmap": 1e-4, "sum": 1e-4, "sum_axis0": 1e-4, "sum_axis1": 1e-4, "narrow_sums": 1e-4,
              "dependent_adds": 1e-4, "compile": 1e-4, "layer_norm": 5e-5, "layer_norm_gradient": 1e-3, "step_large": 5e-5,
              "gru_step": 1e-3, "scan_steps": 1e-4, "conv3x3": 1e-4, "conv7x7s2": 1e-4, "conv1x1": 1e-4, "conv_grad": 1e-3, "resnet18": 1e-3, "resnet18_one": 1e-3, "gpt2_prompt": 1e-4, "gpt2_token": 1e-4,
              "fft": 1e-3, "fft_lines": 1e-3, "attention_grad": 1e-4, "gpt_step": 1e-4, "gpt_step_bf16": 2e-3, "conv_step": 1e-4, "vae_step": 1e-4, "nbody": 1e-3}
TOLERANCES |= {f"matmul_{kind}_{n}": tolerance * (n / 1024) ** 0.5 for n in PRODUCT_SIDES
               for kind, tolerance in {"f32": 1e-4, "tf32": 3e-2, "fast_bf16": 0.2, "bf16": 2e-2}.items()}
TOLERANCES |= {f"{kind}_{n}": 1e-3 for kind in LINEAR_KINDS for n in LINEAR_SIDES}
TOLERANCES |= {"inv_many": 1e-4, "large_sum": 1e-4, "large_layer_norm": 5e-5}
TOLERANCE = 1e-5
MEAN_TOLERANCE = 1e-3


def difference(row, ours, file, same_numbers):
    """The largest difference from berth's result, |a - b| / (1 + |b|), and what it may be."""
    theirs = numpy.load(file, mmap_mode="r")
    if row in LARGE_INPUTS:
        ours = ours.reshape(-1)[::ours.size // SAMPLE + 1]
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf"), 0
    if numpy.iscomplexobj(ours):
        ours, theirs = (numpy.ascontiguousarray(x).view(numpy.float32) for x in (ours, theirs))
    if not same_numbers:
        return abs(float(ours.mean(dtype=float)) - float(theirs.mean(dtype=float))), MEAN_TOLERANCE
    ours, theirs, worst = ours.reshape(-1), theirs.reshape(-1), 0.0
    for begin in range(0, ours.size, 10 * MILLION):
        a, b = (part[begin:begin + 10 * MILLION].astype(float) for part in (ours, theirs))
        with numpy.errstate(invalid="ignore"):
            relative = numpy.abs(a - b) / (1 + numpy.abs(b))
        relative[a == b] = 0  # infinities too
        worst = max(worst, float(relative.max(initial=0)), float("inf") if numpy.isnan(relative).any() else 0)
    return worst, TOLERANCES.get(row, TOLERANCE)
