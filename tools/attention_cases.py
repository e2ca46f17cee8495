#!/usr/bin/env python3
"""Writes tests/golden/attention.safetensors: what PyTorch gives for scaled dot product attention, with its gradients, in the form of tests/golden/README.md: causal, masked
by bools and by numbers, with shared heads, with so many keys as lengths say. Needs torch, numpy and safetensors from PyPI. Usage: tools/attention_cases.py [FILE]"""
import json
import sys

import numpy
import torch
from safetensors.numpy import save_file
from torch.nn import functional

draw = numpy.random.default_rng(20261127)
tensors, cases = {}, []


def numbers(dtype, *shape):
    return draw.uniform(-2, 2, shape).astype(dtype)


def reached(rows, keys, causal, from_end, lengths):
    """[batch or 1, 1, rows, keys]: which keys a query reads, as far as places say; None: all."""
    if not causal and lengths is None:
        return None
    count = torch.full((1, 1, 1, 1), keys) if lengths is None else torch.tensor(lengths).reshape(-1, 1, 1, 1)
    place, query = torch.arange(keys).reshape(1, 1, 1, keys), torch.arange(rows).reshape(1, 1, rows, 1)
    inside = place < count
    if causal:
        inside = inside & (place <= (query + count - rows if from_end else query))
    return inside


def attention(dtype, q, k, v, causal=False, from_end=False, scale=None, mask=None, lengths=None, bool_mask=False):
    rows, keys = q[-2], k[-2]
    inputs = [numbers(dtype, *q), numbers(dtype, *k), numbers(dtype, *v)]
    attrs = {"causal": causal, "from_end": from_end}
    if scale is not None:
        attrs["scale"] = scale
    given = [torch.tensor(x, requires_grad=True) for x in inputs]
    added = None
    if mask is not None:
        attrs["mask"] = len(inputs)
        inputs.append(draw.uniform(0, 1, mask) < 0.6 if bool_mask else numbers(dtype, *mask))
        added = torch.tensor(inputs[-1], requires_grad=not bool_mask)
        if not bool_mask:
            given.append(added)
    if lengths is not None:
        attrs["lengths"] = len(inputs)
        inputs.append(numpy.array(lengths, numpy.int32))
    inside = reached(rows, keys, causal, from_end, lengths)
    if inside is not None and added is not None and not bool_mask:
        added = torch.where(inside, added, -torch.inf)
    elif inside is not None:
        added = inside if added is None else added & inside
    made = functional.scaled_dot_product_attention(given[0], given[1], given[2], attn_mask=added, scale=scale, enable_gqa=len(q) > 2 and q[-3] != k[-3])
    cotangent = numbers(dtype, *made.shape)
    grads = torch.autograd.grad(made, given, torch.tensor(cotangent))
    name = f"attention/{len(cases)}"
    tolerance = 3e-5 if dtype == "float32" else 1e-12
    parts = {f"in{i}": x for i, x in enumerate(inputs)} | {"out": made.detach().numpy(), "ct": cotangent}
    parts |= {f"grad{i}": x.numpy() for i, x in enumerate(grads)}
    assert all(numpy.isfinite(x).all() for x in parts.values()), name
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x) for part, x in parts.items()})
    cases.append({"name": name, "op": "attention", "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(len(inputs))], "output": f"{name}.out",
                  "vjp": {"cotangent": f"{name}.ct", "of": list(range(len(grads))), "grads": [f"{name}.grad{i}" for i in range(len(grads))]},
                  "rtol": tolerance, "atol": tolerance})


for dtype in ("float32", "float64"):
    attention(dtype, (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))
    attention(dtype, (1, 2, 70, 8), (1, 2, 70, 8), (1, 2, 70, 6), causal=True)
    attention(dtype, (2, 4, 5, 4), (2, 2, 9, 4), (2, 2, 9, 3), causal=True, from_end=True)
    attention(dtype, (2, 4, 9, 4), (2, 1, 5, 4), (2, 1, 5, 4), causal=True, scale=-0.7)
    attention(dtype, (6, 5), (11, 5), (11, 5), scale=1.5)
    attention(dtype, (3, 6, 5), (3, 11, 5), (3, 11, 2), mask=(6, 11))
    attention(dtype, (2, 2, 6, 5), (2, 2, 80, 5), (2, 2, 80, 5), mask=(2, 1, 6, 80))
    attention(dtype, (2, 2, 6, 5), (2, 2, 8, 5), (2, 2, 8, 5), mask=(2, 2, 6, 8), bool_mask=True)
    attention(dtype, (2, 2, 6, 5), (2, 2, 8, 5), (2, 2, 8, 5), mask=(8,), causal=True)
    attention(dtype, (3, 4, 1, 8), (3, 2, 40, 8), (3, 2, 40, 8), lengths=[40, 1, 17])
    attention(dtype, (3, 4, 3, 8), (3, 2, 40, 8), (3, 2, 40, 8), lengths=[40, 3, 17], causal=True, from_end=True)
    attention(dtype, (2, 2, 4, 8), (2, 2, 20, 8), (2, 2, 20, 8), lengths=[20, 9], mask=(4, 20), causal=True)
attention("float32", (1, 2, 70, 16), (1, 1, 600, 16), (1, 1, 600, 16), causal=True, from_end=True)

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/attention.safetensors",
          {"cases": json.dumps(cases), "source": f"PyTorch {torch.__version__} on CPU"})
