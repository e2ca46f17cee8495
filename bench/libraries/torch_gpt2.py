"""The rows of src/cli/bench_gpt2.c in PyTorch: GPT-2 reads a prompt at once, and words one after the other, with a cache of a fixed size."""
import numpy
import torch
from torch.nn import functional

from common import DEVICE, Row, floats

WORDS, PLACES, WIDTH, HEADS, LAYERS, PROMPT, STEPS = 50257, 1024, 768, 12, 12, 120, 8
DEPTH = WIDTH // HEADS
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
    return [torch.from_numpy(value).to(DEVICE) for value in found + [numpy.ones(WIDTH, numpy.float32), numpy.zeros(WIDTH, numpy.float32)]]


class Reader:
    def __init__(self):
        self.p, self.place = parameters(), 0
        self.keys, self.values = (torch.zeros(LAYERS, 1, HEADS, PLACES, DEPTH, device=DEVICE) for _ in range(2))

    def attend(self, qkv, layer):
        count = qkv.shape[1]
        q, k, v = qkv.view(1, count, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4)
        keys, values, end = self.keys[layer], self.values[layer], self.place + count
        keys[:, :, self.place:end], values[:, :, self.place:end] = k, v
        y = functional.scaled_dot_product_attention(q, keys[:, :, :end], values[:, :, :end], is_causal=count > 1)  # a prompt begins at 0
        return y.transpose(1, 2).reshape(1, count, WIDTH)

    def read(self, first, count):
        with torch.no_grad():
            p, words = self.p, torch.tensor([[(first + i) * 1009 % WORDS for i in range(count)]], device=DEVICE)
            x = functional.embedding(words, p[0]) + p[1][self.place:self.place + count]
            for layer in range(LAYERS):
                w = p[2 + len(SHAPES) * layer:]
                x = x + functional.linear(self.attend(functional.linear(functional.layer_norm(x, (WIDTH,), w[0], w[1]), w[2], w[3]), layer), w[4], w[5])
                h = functional.gelu(functional.linear(functional.layer_norm(x, (WIDTH,), w[6], w[7]), w[8], w[9]), approximate="tanh")
                x = x + functional.linear(h, w[10], w[11])
            self.place += count
            return functional.linear(functional.layer_norm(x[0, -1], (WIDTH,), p[-2], p[-1]), p[0])


def gpt2_prompt():
    reader = Reader()

    def run(repetition):
        reader.place = 0
        return reader.read(0, PROMPT)

    return Row(run)


def gpt2_token():
    reader = Reader()
    reader.read(0, PROMPT)

    def run(repetition):
        reader.place = PROMPT
        for i in range(STEPS):
            logits = reader.read(PROMPT + i, 1)
        return logits

    return Row(run, steps=STEPS)
