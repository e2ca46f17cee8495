#!/usr/bin/env python3
"""Writes tests/golden/mixed.safetensors: what PyTorch gives in mixed precision, in the form of tests/golden/README.md: operations in a block of torch.autocast with their
gradients, products of 8-bit integers in int32, and of small floats in float32; and casts of 8-bit floats, to them by ml_dtypes (PyTorch saturates some). Needs torch,
ml_dtypes and safetensors from PyPI. Usage: tools/mixed_cases.py [FILE]"""
import json
import sys

import ml_dtypes
import torch
from safetensors.torch import save_file
from torch.nn import functional

draw = torch.Generator().manual_seed(20261126)
tensors, cases = {}, []
SHORT = {torch.bfloat16: "bfloat16", torch.float16: "float16"}
DIGIT = {torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float32: 1e-5, torch.int32: 0}


def add(op, attrs, inputs, out, tolerance, vjp=None):
    name = f"mixed/{len(cases)}"
    parts = {f"in{i}": x.detach() for i, x in enumerate(inputs)} | {"out": out.detach()}
    case = {"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(len(inputs))], "output": f"{name}.out", "rtol": tolerance, "atol": tolerance}
    if vjp:
        of, cotangent, grads = vjp
        parts |= {"ct": cotangent} | {f"grad{i}": x for i, x in enumerate(grads)}
        case["vjp"] = {"cotangent": f"{name}.ct", "of": of, "grads": [f"{name}.grad{i}" for i in range(len(grads))]}
    tensors.update({f"{name}.{part}": x.contiguous().clone() for part, x in parts.items()})
    cases.append(case)


def numbers(dtype, *shape):
    return (torch.rand(shape, generator=draw) * 2 - 1).to(dtype)


def autocast(lower, op, function, inputs, attrs=None, digits=4):
    """digits: of the lower dtype's last ones, how many the results may differ by."""
    given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    with torch.autocast("cpu", lower):
        out = function(*given)
    cotangent = numbers(out.dtype, *out.shape)
    wanted = [i for i, x in enumerate(given) if x.requires_grad]
    grads = torch.autograd.grad(out, [given[i] for i in wanted], cotangent)
    add(op, {**(attrs or {}), "autocast": SHORT[lower]}, inputs, out, digits * DIGIT[lower], (wanted, cotangent, grads))


def products(lower):
    wide, low = torch.float32, lower
    for left, right in ((wide, wide), (low, wide), (wide, low), (low, low)):
        autocast(lower, "matmul", torch.matmul, [numbers(left, 5, 7), numbers(right, 7, 6)])
    autocast(lower, "matmul", torch.matmul, [numbers(wide, 2, 3, 5, 40), numbers(wide, 3, 40, 6)])
    autocast(lower, "matmul", torch.matmul, [numbers(wide, 70, 200), numbers(wide, 200, 90)], digits=8)
    autocast(lower, "matmul", torch.matmul, [numbers(wide, 40), numbers(wide, 40, 6)])
    autocast(lower, "einsum", lambda a, b: torch.einsum("bij,bkj->ibk", a, b), [numbers(wide, 2, 3, 20), numbers(wide, 2, 5, 20)], {"spec": "bij,bkj->ibk"})
    autocast(lower, "conv", lambda x, w: functional.conv1d(x, w, stride=2), [numbers(wide, 2, 4, 12), numbers(wide, 6, 4, 3)], {"strides": [2]}, 8)
    autocast(lower, "conv", functional.conv2d, [numbers(wide, 2, 3, 8, 8), numbers(wide, 4, 3, 3, 3)], {}, 8)
    autocast(lower, "conv_transposed", functional.conv_transpose2d, [numbers(wide, 2, 3, 5, 5), numbers(wide, 3, 4, 3, 3)], {}, 8)
    autocast(lower, "attention", lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True), [numbers(wide, 2, 3, 9, 8) for _ in range(3)],
             {"causal": True}, 8)


def in_float32(lower):
    x, y, classes = numbers(lower, 6, 5), numbers(lower, 6, 5), torch.tensor([0, 4, 2, 2, 1, 3])
    matrix = numbers(lower, 4, 4)
    definite = (torch.eye(4) * 2 + matrix.float() @ matrix.float().T).to(lower)
    autocast(lower, "mse", functional.mse_loss, [x, y])
    autocast(lower, "mae", functional.l1_loss, [x, y])
    autocast(lower, "huber", functional.huber_loss, [x, y], {"delta": 1.0})
    autocast(lower, "binary_cross_entropy", functional.binary_cross_entropy_with_logits, [x, y.abs()])
    autocast(lower, "cross_entropy", functional.cross_entropy, [x, classes])
    autocast(lower, "prod", lambda x: torch.prod(x, 1), [x], {"axes": [1]})
    autocast(lower, "trace", torch.trace, [matrix])
    autocast(lower, "cholesky", lambda a: torch.linalg.cholesky(a), [definite], digits=8)
    autocast(lower, "inv", torch.linalg.inv, [definite], digits=8)


def bytes_of(dtype, *shape):
    limits = torch.iinfo(dtype)
    return torch.randint(limits.min, limits.max + 1, shape, generator=draw, dtype=torch.int64).to(dtype)


def in_int32(left, right, first, second, transposed=False):
    a, b = bytes_of(left, *first), bytes_of(right, *second)
    attrs = {"dtype": "int32"} | ({"transpose_b": True} if transposed else {})
    add("matmul_as", attrs, [a, b.T if transposed else b], torch.matmul(a.to(torch.int32), b.to(torch.int32)), 0)


for lower in SHORT:
    products(lower)
    in_float32(lower)
for left in (torch.int8, torch.uint8):
    for right in (torch.int8, torch.uint8):
        in_int32(left, right, (5, 7), (7, 6))
        in_int32(left, right, (66, 65), (65, 70))
        in_int32(left, right, (2, 3, 40, 33), (3, 33, 20))
        in_int32(left, right, (40,), (40, 8))
in_int32(torch.int8, torch.int8, (70, 300), (300, 64))
in_int32(torch.int8, torch.int8, (72, 304), (304, 64), transposed=True)
in_int32(torch.int8, torch.int8, (9, 8), (8, 12), transposed=True)
in_int32(torch.int8, torch.int8, (9, 8), (8, 13), transposed=True)
in_int32(torch.uint8, torch.int8, (40, 64), (64, 32), transposed=True)
in_int32(torch.int8, torch.int8, (4, 0), (0, 4))
for lower in SHORT:
    a, b = numbers(lower, 30, 50), numbers(lower, 50, 20)
    add("matmul_as", {"dtype": "float32"}, [a, b], a.float() @ b.float(), 1e-5)



def rounded(values, dtype):
    """As JAX: what is too great is NaN in E4M3 and infinite in E5M2."""
    made = values.float().numpy().astype(getattr(ml_dtypes, str(dtype)[6:]))
    return torch.from_numpy(made.view("uint8")).view(dtype)


def float8():
    """Every number of both formats as others; all numbers between, above and beside them, and the reverse."""
    names = {torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2"}
    for dtype, name in names.items():
        every = torch.arange(256, dtype=torch.uint8).view(dtype)
        for other in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            add("cast", {"dtype": str(other)[6:]}, [every], every.float().to(other), 0)
        exact = every.float()[torch.isfinite(every.float())]
        middle = (exact.sort()[0][1:] + exact.sort()[0][:-1]) / 2
        tiny = torch.tensor([1e-30, 2.0**-149, 2.0**-10, 2.0**-11, 2.0**-17, 2.0**-18, 448, 464, 464.1, 480, 57344, 61440, 61439.9, 1e30, torch.inf, torch.nan])
        values = torch.cat([exact, middle, torch.nextafter(middle, torch.tensor(torch.inf)), torch.nextafter(middle, torch.tensor(-torch.inf)), tiny, -tiny])
        add("cast", {"dtype": name}, [values], rounded(values, dtype), 0)
        for other in (torch.float16, torch.bfloat16, torch.int32):
            given = values.clamp(-60000, 60000).nan_to_num().to(other)
            add("cast", {"dtype": name}, [given], rounded(given, dtype), 0)
        table = every.reshape(16, 16)
        add("take", {"axis": 0}, [table, torch.tensor([3, 0, 15], dtype=torch.int32)], table.view(torch.uint8)[[3, 0, 15]].view(dtype), 0)
        add("transpose", {}, [table], table.view(torch.uint8).T.contiguous().view(dtype), 0)


float8()
save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/mixed.safetensors",
          {"cases": json.dumps(cases), "source": f"PyTorch {torch.__version__} on CPU"})
