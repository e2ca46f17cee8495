#!/usr/bin/env python3
"""Writes tests/golden/losses.safetensors: what PyTorch gives for losses with weights, label smoothing, classes that are left out and reductions, with gradients,
in the form of tests/golden/README.md. Needs torch, numpy and safetensors from PyPI. Usage: tools/loss_cases.py [FILE]"""
import json
import sys

import numpy
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

draw = numpy.random.default_rng(20261127)
tensors, cases = {}, []
REDUCTIONS = ("mean", "sum", "none")


def numbers(*shape, dtype="float64"):
    return draw.uniform(-2, 2, shape).astype(dtype)


def add(op, attrs, inputs, call):
    """One case; gradients of all floats by a cotangent that is drawn."""
    name = f"{op}/{sum(case['op'] == op for case in cases)}"
    given = [torch.from_numpy(numpy.ascontiguousarray(x)) for x in inputs]
    floats = [i for i, x in enumerate(given) if x.is_floating_point()]
    for i in floats:
        given[i].requires_grad_()
    made = call(*given)
    parts = {f"in{i}": x for i, x in enumerate(inputs)} | {"out": made.detach().numpy()}
    near = 2e-6 if inputs[0].dtype == numpy.float32 else 1e-12
    case = {"name": name, "op": op, "attrs": attrs, "inputs": [f"{name}.in{i}" for i in range(len(inputs))], "output": f"{name}.out", "rtol": near, "atol": near}
    cotangent = numbers(*made.shape, dtype=inputs[0].dtype)
    made.backward(torch.from_numpy(cotangent) if made.dim() else torch.tensor(cotangent))
    of = [i for i in floats if given[i].grad is not None]
    parts |= {"ct": cotangent} | {f"grad{i}": given[i].grad.numpy() for i in of}
    case["vjp"] = {"cotangent": f"{name}.ct", "of": of, "grads": [f"{name}.grad{i}" for i in of]}
    tensors.update({f"{name}.{part}": numpy.ascontiguousarray(x).reshape(numpy.shape(x)) for part, x in parts.items()})
    cases.append(case)


def classes_last(logits, targets, weights, **options):
    """PyTorch's classes are the second axis. Gradients of weights are not PyTorch's to give."""
    rows = logits.movedim(-1, 1) if logits.dim() > 1 else logits
    if targets.is_floating_point():
        targets = targets.movedim(-1, 1)
    return F.cross_entropy(rows, targets, weight=weights, **options)


for dtype in ("float64", "float32"):
    for reduction in REDUCTIONS:
        for shape in ((4, 3), (2, 3, 5)):
            x, y, w = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype), draw.uniform(0.5, 2, shape).astype(dtype)
            attrs = {"reduction": reduction}
            add("mse_loss", attrs, [x, y], lambda x, y, r=reduction: F.mse_loss(x, y, reduction=r))
            add("mae_loss", attrs, [x, y], lambda x, y, r=reduction: F.l1_loss(x, y, reduction=r))
            add("huber_loss", attrs | {"delta": 0.7}, [x, y], lambda x, y, r=reduction: F.huber_loss(x, y, reduction=r, delta=0.7))
            t = draw.uniform(0, 1, shape).astype(dtype)
            add("binary_cross_entropy_loss", attrs, [x, t], lambda x, t, r=reduction: F.binary_cross_entropy_with_logits(x, t, reduction=r))
            p = draw.uniform(0.5, 3, shape[-1:]).astype(dtype)
            add("binary_cross_entropy_loss", attrs | {"weights": True, "positive_weights": True}, [x, t, w, p],
                lambda x, t, w, p, r=reduction: F.binary_cross_entropy_with_logits(x, t, weight=w.detach(), pos_weight=p.detach(), reduction=r))
            for smoothing in (0.0, 0.2):
                labels = draw.integers(0, shape[-1], shape[:-1])
                some = numpy.where(draw.uniform(size=labels.shape) < 0.4, 1, labels)
                away = numpy.where(draw.uniform(size=labels.shape) < 0.4, -100, labels)
                shares = draw.uniform(0, 1, shape).astype(dtype)
                weights = draw.uniform(0.5, 2, shape[-1:]).astype(dtype)
                options = {"reduction": reduction, "label_smoothing": smoothing}
                add("cross_entropy_loss", options, [x, labels], lambda x, t, o=options: classes_last(x, t, None, **o))
                add("cross_entropy_loss", options | {"weights": True}, [x, labels, weights], lambda x, t, w, o=options: classes_last(x, t, w.detach(), **o))
                add("cross_entropy_loss", options | {"ignored": -100}, [x, away], lambda x, t, o=options: classes_last(x, t, None, ignore_index=-100, **o))
                add("cross_entropy_loss", options | {"weights": True, "ignored": 1}, [x, some, weights],
                    lambda x, t, w, o=options: classes_last(x, t, w.detach(), ignore_index=1, **o))
                add("cross_entropy_loss", options, [x, shares], lambda x, t, o=options: classes_last(x, t, None, **o))
                add("cross_entropy_loss", options | {"weights": True}, [x, shares, weights], lambda x, t, w, o=options: classes_last(x, t, w.detach(), **o))

save_file(tensors, sys.argv[1] if len(sys.argv) > 1 else "tests/golden/losses.safetensors",
          {"cases": json.dumps(cases), "source": f"PyTorch {torch.__version__} on CPU"})
