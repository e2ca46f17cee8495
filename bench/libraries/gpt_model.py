"""The sizes, parameters and inputs of src/cli/bench_gpt.c."""
import numpy

from common import floats, integers

BATCH, PLACES, WIDTH, HEADS, LAYERS, WORDS, RATE = 4, 256, 384, 6, 4, 8192, 0.1
# Of a layer: norm, queries keys values, projection, norm, two dense layers.
SHAPES = [(WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH,), (WIDTH,), (WIDTH, 4 * WIDTH), (4 * WIDTH,),
          (4 * WIDTH, WIDTH), (WIDTH,)]


def parameters(transposed=False):
    """transposed: matrices of layers are [outputs, inputs], as PyTorch has them."""
    found = [floats(10, -0.05, 0.05, WORDS, WIDTH), floats(11, -0.05, 0.05, PLACES, WIDTH)]
    for _ in range(LAYERS):
        for place, shape in enumerate(SHAPES):
            if len(shape) == 1:
                found.append((numpy.ones if place in (0, 6) else numpy.zeros)(shape, numpy.float32))
            else:
                matrix = floats(10 + len(found), -0.05, 0.05, *shape)
                found.append(numpy.ascontiguousarray(matrix.T) if transposed else matrix)
    return found + [numpy.ones(WIDTH, numpy.float32), numpy.zeros(WIDTH, numpy.float32)]


def layers_of(p):
    """The parameters of each layer."""
    return [p[first:first + len(SHAPES)] for first in range(2, 2 + len(SHAPES) * LAYERS, len(SHAPES))]


def inputs():
    """Words, and those that follow them."""
    return [integers(seed, WORDS, BATCH, PLACES) for seed in (1, 2)]
