#!/usr/bin/env python3
"""Writes tests/golden/windows.safetensors: what PyTorch gives for convolutions, transposed ones and pooling along one to three axes, with their gradients, in the form of
tests/golden/README.md. Needs torch, numpy and safetensors from PyPI. Usage: tools/window_cases.py [FILE]"""
import json
import sys

import numpy
import torch
from safetensors.numpy import save_file
from torch.nn import functional

draw = numpy.random.default_rng(20261126)
tensors, cases = {}, []


def numbers(dtype, *shape):
    return draw.uniform(-2, 2, shape).astype(dtype)


def add(op, attrs, inputs, call):
    """One case: the result, and the gradients of all inputs by a cotangent that is drawn."""
    name = f"{op}/{sum(case['op'] == op for case in cases)}"
    given = [torch.tensor(x, requires_grad=True) for x in inputs]
    made = call(*given)
    cotangent = numbers(inputs[0].dtype, *made.shape)
    grads = torch.autograd.grad(made, given, torch.tensor(cotangent))
    tolerance = 3e-5 if inputs[0].dtype == numpy.float32 else 1e-12
    parts = {f"in{i}": x for i, x in enumerate(inputs)} | {"out": made.detach().numpy(), "ct": cotangent}
    parts |= {f"grad{i}": x.numpy() for i, x in enumerate(grads)}
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x) for part, x in parts.items()})
    cases.append({"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(len(inputs))], "output": f"{name}.out",
                  "vjp": {"cotangent": f"{name}.ct", "of": list(range(len(inputs))), "grads": [f"{name}.grad{i}" for i in range(len(inputs))]},
                  "rtol": tolerance, "atol": tolerance})


def pads(low, high):
    """As torch.nn.functional.pad takes them: the last axis first."""
    return [size for pair in zip(reversed(low), reversed(high)) for size in pair]


def convolution(dtype, x, w, stride, low, high, dilation, groups):
    call = (functional.conv1d, functional.conv2d, functional.conv3d)[len(stride) - 1]
    add("conv", {"strides": stride, "pad_low": low, "pad_high": high, "dilation": dilation, "groups": groups},
        [numbers(dtype, *x), numbers(dtype, *w)],
        lambda x, w: call(functional.pad(x, pads(low, high)), w, stride=stride, dilation=dilation, groups=groups))


def transposed(dtype, y, w, stride, pad, more, dilation, groups):
    call = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[len(stride) - 1]
    add("conv_transposed", {"strides": stride, "pad_low": pad, "pad_high": pad, "dilation": dilation, "groups": groups, "output_pad": more},
        [numbers(dtype, *y), numbers(dtype, *w)],
        lambda y, w: call(y, w, stride=stride, padding=pad, output_padding=more, dilation=dilation, groups=groups))


def pool(op, dtype, x, window, stride, pad, dilation=None, exclude=False):
    dims = len(window) - 1
    attrs = {"window": window, "strides": stride, "pad_low": pad, "pad_high": pad, "exclude_pads": exclude}
    if op == "max_pool":
        attrs["dilation"] = dilation or [1] * len(window)
        call = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[dims]
        add(op, attrs, [numbers(dtype, *x)], lambda x: call(x, window, stride, pad, attrs["dilation"]))
    else:
        call = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[dims]
        add(op, attrs, [numbers(dtype, *x)], lambda x: call(x, window, stride, pad, count_include_pad=not exclude))


def adaptive(op, dtype, x, sizes):
    kind = "max" if op == "adaptive_max_pool" else "avg"
    call = getattr(functional, f"adaptive_{kind}_pool{len(sizes)}d")
    add(op, {"sizes": sizes}, [numbers(dtype, *x)], lambda x: call(x, sizes))


for dtype in ("float32", "float64"):
    convolution(dtype, (2, 3, 11), (4, 3, 3), [1], [0], [0], [1], 1)
    convolution(dtype, (2, 4, 12), (6, 2, 4), [3], [2], [1], [2], 2)
    convolution(dtype, (2, 3, 7, 6), (5, 3, 3, 2), [1, 1], [1, 0], [1, 1], [1, 1], 1)
    convolution(dtype, (1, 4, 9, 8), (4, 1, 3, 3), [2, 1], [1, 1], [1, 1], [1, 2], 4)
    convolution(dtype, (2, 6, 5, 5), (4, 6, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1], 1)
    convolution(dtype, (1, 6, 8, 9), (6, 3, 2, 3), [2, 3], [0, 2], [1, 0], [3, 1], 2)
    convolution(dtype, (1, 2, 5, 6, 4), (3, 2, 3, 2, 2), [1, 2, 1], [1, 0, 1], [0, 1, 0], [1, 1, 2], 1)
    convolution(dtype, (2, 16, 10, 10), (16, 16, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 1)
    transposed(dtype, (2, 3, 5), (3, 2, 4), [2], [1], [0], [1], 1)
    transposed(dtype, (1, 4, 4, 5), (4, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], 2)
    transposed(dtype, (2, 2, 3, 4), (2, 3, 3, 2), [1, 3], [0, 1], [0, 2], [2, 1], 1)
    transposed(dtype, (1, 2, 2, 3, 2), (2, 1, 2, 3, 3), [1, 2, 2], [0, 1, 0], [0, 1, 0], [1, 1, 1], 1)
    for op in ("max_pool", "avg_pool"):
        pool(op, dtype, (2, 3, 11), [3], [2], [1])
        pool(op, dtype, (2, 2, 9, 8), [3, 2], [2, 2], [1, 0])
        pool(op, dtype, (1, 2, 5, 6, 7), [2, 3, 2], [1, 2, 2], [1, 1, 1])
    pool("max_pool", dtype, (1, 2, 9, 10), [2, 3], [1, 2], [1, 1], [2, 3])
    pool("avg_pool", dtype, (1, 2, 9, 10), [3, 3], [2, 2], [1, 1], exclude=True)
    for op in ("adaptive_max_pool", "adaptive_avg_pool"):
        adaptive(op, dtype, (2, 3, 10), [4])
        adaptive(op, dtype, (2, 3, 8, 9), [4, 3])
        adaptive(op, dtype, (1, 2, 7, 10), [1, 1])
        adaptive(op, dtype, (1, 2, 7, 10), [3, 4])

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/windows.safetensors",
          {"cases": json.dumps(cases), "source": f"PyTorch {torch.__version__} on CPU"})
