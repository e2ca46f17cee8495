"""What the rows of all libraries share: inputs that berth makes alike (src/cli/bench_inputs.c), shapes, the comparison."""
from collections import namedtuple
import subprocess
import sys

import numpy

MILLION = 1_000_000
ADDS = 1000

# One row as a library does it. run(repetition) gives a result; check(), where there is one, gives what is compared in its place.
# steps: how many are in one run. same_numbers: berth draws the same random numbers; else only means are compared.
Row = namedtuple("Row", "run check steps same_numbers", defaults=(None, 1, True))


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


# ---- the inputs of each row, as NumPy arrays

INPUTS = {
    "elementwise": lambda: [floats(1, 0.5, 100, 10 * MILLION)],
    "elementwise_compiled": lambda: [floats(1, 0.5, 100, 10 * MILLION)],
    "matmul1024": lambda: [floats(seed, -1, 1, 1024, 1024) for seed in (1, 2)],
    "matmul2048": lambda: [floats(seed, -1, 1, 2048, 2048) for seed in (1, 2)],
    "matmul4096": lambda: [floats(seed, -1, 1, 4096, 4096) for seed in (1, 2)],
    "matmul_small": lambda: [floats(seed, -1, 1, 1000, 16, 16) for seed in (1, 2)],
    "softmax": lambda: [floats(1, -4, 4, 8192, 1024)],
    "layer_norm": lambda: [floats(1, -4, 4, 8192, 1024), floats(2, 0.5, 1.5, 1024), floats(3, -1, 1, 1024)],
    "sum": lambda: [floats(1, 0, 1, 10 * MILLION)],
    "sum_axis0": lambda: [floats(1, 0, 1, 4096, 4096)],
    "sum_axis1": lambda: [floats(1, 0, 1, 4096, 4096)],
    "transpose_add": lambda: [floats(1, -1, 1, 4096, 4096)],
    "broadcast": lambda: [floats(1, -1, 1, 8192, 1024), floats(2, -1, 1, 1024), floats(3, -1, 1, 8192, 1)],
    "gather": lambda: [floats(1, -1, 1, 100000, 64), integers(2, 100000, MILLION)],
    "dependent_adds": lambda: [floats(1, -1, 1, 4), floats(2, -1, 1, 4)],
    "compile": lambda: [floats(1, 0.5, 1.5, 1 << 18)],
}


def plain(row, function, to_array, **more):
    """A row that applies a function to its inputs."""
    arrays = [to_array(array) for array in INPUTS[row]()]
    return Row(lambda repetition: function(*arrays), **more)


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


# ---- a process that adds two arrays


def startup(source):
    def run(repetition):
        done = subprocess.run([sys.executable, "-c", source], stdout=subprocess.PIPE, check=True, text=True)
        return numpy.array([float(word) for word in done.stdout.split()[-2:]], numpy.float32)

    return Row(run)


# ---- comparing

TOLERANCES = {"matmul1024": 1e-4, "matmul2048": 1e-4, "matmul4096": 2e-4, "sum": 1e-4, "sum_axis0": 1e-4, "sum_axis1": 1e-4,
              "dependent_adds": 1e-4, "compile": 1e-4, "layer_norm": 5e-5, "step_large": 5e-5}
TOLERANCE = 1e-5
MEAN_TOLERANCE = 1e-3


def difference(row, ours, file, same_numbers):
    """The largest difference from berth's result, |a - b| / (1 + |b|), and what it may be."""
    theirs = numpy.load(file, mmap_mode="r")
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf"), 0
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
