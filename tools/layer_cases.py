#!/usr/bin/env python3
"""Writes tests/layers/torch.safetensors: what PyTorch's layers give from the same weights, with gradients and states, for tests/layers_values_test.c, which makes the layers. Of a case `c`: c/in0..., c/p/NAME
(parameters and states before, by berth's names and layouts), c/out0..., c/ct0... (what flows back), c/dx0..., c/g/NAME (gradients), c/after/NAME (states). Needs torch, numpy and safetensors from PyPI.
Usage: tools/layer_cases.py [FILE]"""
import sys

import numpy
import torch
from safetensors.numpy import save_file
from torch import nn
from torch.nn import functional

torch.manual_seed(20261127)
tensors = {}


def store(case, module, inputs, names=None, transposed=(), forward=None):
    """names: PyTorch's name to berth's; transposed: PyTorch's names whose matrices berth has the other way round."""
    rename = lambda name: name if names is None else names.get(name, name)
    layout = lambda name, x: (x.T if name in transposed else x).detach().numpy().copy()
    for name, value in module.state_dict().items():
        tensors[f"{case}/p/{rename(name)}"] = layout(name, value)
    for i, x in enumerate(inputs):
        tensors[f"{case}/in{i}"] = x.detach().numpy().copy()
    made = (forward or module)(*inputs)
    made = [made] if isinstance(made, torch.Tensor) else list(made)
    total = 0
    for i, y in enumerate(made):
        ct = torch.randn_like(y)
        tensors[f"{case}/out{i}"], tensors[f"{case}/ct{i}"] = y.detach().numpy().copy(), ct.numpy()
        total = total + (y * ct).sum()
    floats = [x for x in inputs if x.requires_grad]
    parameters = dict(module.named_parameters())
    grads = torch.autograd.grad(total, floats + list(parameters.values()), allow_unused=True) if total.requires_grad else []
    for i, (x, g) in enumerate(zip(floats, grads)):
        tensors[f"{case}/dx{i}"] = g.numpy().copy()
    for name, g in zip(parameters, grads[len(floats):]):
        tensors[f"{case}/g/{rename(name)}"] = layout(name, g)
    for name, value in module.named_buffers():
        tensors[f"{case}/after/{rename(name)}"] = value.numpy().copy()


def x(*shape):
    return torch.randn(*shape, requires_grad=True)


def spread(module):
    """Weights that begin with 0 or 1 are of other numbers."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return module


store("dense", nn.Linear(3, 4), [x(2, 5, 3)], transposed=("weight",))
store("embedding", nn.Embedding(5, 3), [torch.tensor([[0, 4, 1], [2, 2, 3]], dtype=torch.int32)])
store("conv1", nn.Conv1d(3, 4, 3, stride=2, padding=1), [x(2, 3, 9)])
store("conv2", nn.Conv2d(4, 6, (3, 2), stride=(1, 2), padding=(2, 0), dilation=(2, 1), groups=2, bias=False), [x(2, 4, 7, 6)])
store("conv2same", nn.Conv2d(2, 3, (3, 4), padding="same"), [x(2, 2, 5, 6)])
store("conv3", nn.Conv3d(2, 3, 2), [x(1, 2, 3, 4, 3)])
store("conv_transposed1", nn.ConvTranspose1d(3, 2, 3, stride=2), [x(2, 3, 4)])
store("conv_transposed2", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), [x(2, 4, 3, 4)])
store("max_pool", nn.MaxPool2d((3, 2), stride=(2, 2), padding=(1, 0)), [x(2, 3, 6, 5)])
store("avg_pool", nn.AvgPool1d(3, padding=1), [x(2, 3, 8)])
store("avg_pool_excluding", nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), [x(2, 2, 5, 5)])
store("adaptive_max", nn.AdaptiveMaxPool2d((2, 3)), [x(2, 2, 5, 7)])
store("adaptive_avg", nn.AdaptiveAvgPool1d(4), [x(2, 2, 6)])
store("global_avg", nn.AdaptiveAvgPool2d(1), [x(2, 3, 4, 5)])
store("layer_norm", spread(nn.LayerNorm(6, eps=1e-3)), [x(2, 3, 6)])
store("rms_norm", spread(nn.RMSNorm(6)), [x(2, 3, 6)])
store("group_norm", spread(nn.GroupNorm(2, 6)), [x(3, 6, 4)])
store("batch_norm", spread(nn.BatchNorm2d(3)), [x(4, 3, 2, 5)])
store("batch_norm_dense", spread(nn.BatchNorm1d(3, momentum=0.25, eps=1e-3)), [x(5, 3)])
store("batch_norm_cumulative", spread(nn.BatchNorm1d(3, momentum=None)), [x(5, 3, 2)])
trained = spread(nn.BatchNorm1d(3))
trained(3 * torch.randn(7, 3) + 1)
store("batch_norm_inference", trained.eval(), [x(5, 3)])
begun = nn.GRU(3, 4, batch_first=True)
store("gru", begun, [x(2, 5, 3)], forward=lambda a: begun(a)[0])
recurrent = nn.GRU(3, 4, batch_first=True)
store("gru_state", recurrent, [x(2, 5, 3), x(2, 4)], forward=lambda a, h: [(r := recurrent(a, h[None]))[0], r[1][0]])
memory = nn.LSTM(3, 4, batch_first=True)
store("lstm_state", memory, [x(2, 5, 3), x(2, 4), x(2, 4)], forward=lambda a, h, c: [(r := memory(a, (h[None], c[None])))[0], r[1][0][0], r[1][1][0]])
bare = nn.LSTM(2, 3, batch_first=True, bias=False)
store("lstm_last", bare, [x(3, 4, 2)], forward=lambda a: bare(a)[0][:, -1])


class Attention(nn.Module):
    """berth's, of PyTorch's parts."""

    def __init__(self, width, heads, kv_heads, causal):
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.value = (nn.Linear(width, width // heads * kv_heads) for _ in range(2))

    def forward(self, q, k=None, v=None, mask=None):
        k = q if k is None else k
        v = k if v is None else v
        split = lambda y, heads: y.unflatten(-1, (heads, -1)).transpose(1, 2)
        read = functional.scaled_dot_product_attention(split(self.query(q), self.heads), split(self.key(k), self.kv_heads), split(self.value(v), self.kv_heads), attn_mask=mask, is_causal=self.causal, enable_gqa=True)
        return self.out(read.transpose(1, 2).flatten(2))


linear = tuple(f"{name}.weight" for name in ("query", "key", "value", "out"))
store("attention_causal", Attention(8, 2, 2, True), [x(2, 5, 8)], transposed=linear)
store("attention_grouped", Attention(8, 4, 2, False), [x(2, 3, 8), x(2, 6, 8)], transposed=linear)
whole = nn.MultiheadAttention(8, 2, batch_first=True)
parts = Attention(8, 2, 2, False)
with torch.no_grad():
    for i, part in enumerate((parts.query, parts.key, parts.value)):
        part.weight.copy_(whole.in_proj_weight[8 * i:8 * i + 8])
        part.bias.copy_(whole.in_proj_bias[8 * i:8 * i + 8])
    parts.out.weight.copy_(whole.out_proj.weight)
    parts.out.bias.copy_(whole.out_proj.bias)
given = [x(2, 3, 8), x(2, 4, 8), x(2, 4, 8)]
mask = torch.randn(3, 4)
assert torch.allclose(whole(*given, attn_mask=mask)[0], parts(*given, mask), atol=1e-5)
store("attention_masked", parts, given + [mask], transposed=linear)


class Model(nn.Sequential):
    pass


model = Model(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))
store("model", spread(model), [x(3, 1, 6, 6)], transposed=("5.weight",))

target = sys.argv[1] if len(sys.argv) > 1 else "tests/layers/torch.safetensors"
save_file({name: numpy.array(value, order="C") for name, value in tensors.items()}, target)
print(f"{len(tensors)} tensors to {target}")
