"""The training steps of src/cli/bench_gpt.c in PyTorch: float32, and bfloat16 by torch.autocast."""
import numpy
from torch.nn import functional

from common import floats, integers
from torch_training import training

BATCH, PLACES, WIDTH, HEADS, LAYERS, WORDS, RATE = 4, 256, 384, 6, 4, 8192, 0.1
SHAPES = [(WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH,), (WIDTH,), (WIDTH, 4 * WIDTH), (4 * WIDTH,),
          (4 * WIDTH, WIDTH), (WIDTH,)]


def parameters():
    """Matrices of layers as functional.linear takes them: transposed."""
    found = [floats(10, -0.05, 0.05, WORDS, WIDTH), floats(11, -0.05, 0.05, PLACES, WIDTH)]
    for _ in range(LAYERS):
        for place, shape in enumerate(SHAPES):
            if len(shape) == 1:
                found.append((numpy.ones if place in (0, 6) else numpy.zeros)(shape, numpy.float32))
            else:
                found.append(numpy.ascontiguousarray(floats(10 + len(found), -0.05, 0.05, *shape).T))
    return found + [numpy.ones(WIDTH, numpy.float32), numpy.zeros(WIDTH, numpy.float32)]


def attend(qkv):
    q, k, v = qkv.view(BATCH, PLACES, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, PLACES, WIDTH)


def layer(x, p):
    x = x + functional.linear(attend(functional.linear(functional.layer_norm(x, (WIDTH,), p[0], p[1]), p[2], p[3])), p[4], p[5])
    h = functional.gelu(functional.linear(functional.layer_norm(x, (WIDTH,), p[6], p[7]), p[8], p[9]))
    return x + functional.linear(h, p[10], p[11])


def loss_of(p, words, following):
    x = functional.embedding(words, p[0]) + p[1]
    for first in range(2, 2 + len(SHAPES) * LAYERS, len(SHAPES)):
        x = layer(x, p[first:first + len(SHAPES)])
    logits = functional.linear(functional.layer_norm(x, (WIDTH,), p[-2], p[-1]), p[0])
    return functional.cross_entropy(logits.view(-1, WORDS), following.view(-1))


def gpt_step(autocast):
    return training([integers(seed, WORDS, BATCH, PLACES) for seed in (1, 2)], parameters, loss_of, RATE, autocast)
