"""The training steps of src/cli/bench_gpt.c in PyTorch: float32, and bfloat16 by torch.autocast."""
from torch.nn import functional

from gpt_model import BATCH, HEADS, PLACES, RATE, WIDTH, WORDS, inputs, layers_of, parameters
from torch_training import training


def attend(qkv):
    q, k, v = qkv.view(BATCH, PLACES, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(BATCH, PLACES, WIDTH)


def layer(x, p):
    x = x + functional.linear(attend(functional.linear(functional.layer_norm(x, (WIDTH,), p[0], p[1]), p[2], p[3])), p[4], p[5])
    h = functional.gelu(functional.linear(functional.layer_norm(x, (WIDTH,), p[6], p[7]), p[8], p[9]))
    return x + functional.linear(h, p[10], p[11])


def loss_of(p, words, following):
    x = functional.embedding(words, p[0]) + p[1]
    for of_layer in layers_of(p):
        x = layer(x, of_layer)
    logits = functional.linear(functional.layer_norm(x, (WIDTH,), p[-2], p[-1]), p[0])
    return functional.cross_entropy(logits.view(-1, WORDS), following.view(-1))


def gpt_step(autocast):
    return training(inputs(), lambda: parameters(transposed=True), loss_of, RATE, autocast)
