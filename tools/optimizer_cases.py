#!/usr/bin/env python3
"""Writes tests/optimizers/trajectories.npz: what PyTorch's optimisers, schedulers, clipping and GradScaler make of two parameters in 20 steps, in float64. The gradient
of a parameter at step t is 0.3 * p + noise[t]. "NAME.w" and "NAME.b" are the parameters after the steps of `kept`, "rates.NAME" the rates of 30 steps of a scheduler.
lion is written out (Chen et al. 2023), as PyTorch has none. Needs torch and numpy from PyPI. Usage: tools/optimizer_cases.py [FILE]"""
import sys

import numpy
import torch
from torch.optim import lr_scheduler

STEPS, KEPT = 20, [1, 2, 3, 6, 13, 20]
draw = numpy.random.default_rng(20261127)
first = {"w": draw.uniform(-1, 1, (3, 4)), "b": draw.uniform(-1, 1, 4)}
noise = {"w": draw.uniform(-1, 1, (STEPS, 3, 4)), "b": draw.uniform(-1, 1, (STEPS, 4))}
arrays = {"kept": numpy.array(KEPT, dtype=numpy.int32)}
arrays.update({f"first.{k}": v for k, v in first.items()})
arrays.update({f"noise.{k}": v for k, v in noise.items()})


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                update = (beta1 * mean + (1 - beta1) * p.grad).sign() + group["weight_decay"] * p
                p -= group["lr"] * update
                mean.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def run(name, make, schedule=None, clip=None, accumulate=1, average=None, scaler=None, bad=()):
    p = {k: torch.tensor(v, requires_grad=True) for k, v in first.items()}
    optimizer = make(p)
    scheduler = schedule(optimizer) if schedule else None
    averages = {k: v.detach().clone() for k, v in p.items()}
    kept, scales, norms = {k: [] for k in p}, [], []
    for t in range(STEPS):
        for k, v in p.items():
            grad = 0.3 * v.detach() + torch.tensor(noise[k][t])
            if t in bad and k == "b":
                grad[1] = float("inf")
            grad = grad * (scaler.get_scale() if scaler else 1) / accumulate
            v.grad = grad if v.grad is None else v.grad + grad
        if (t + 1) % accumulate == 0:
            if scaler:
                scaler.scale(torch.zeros(1))  # makes its tensors
                scaler.unscale_(optimizer)
            if clip:
                norms.append(float(clip(list(p.values())) or 0))
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            if scheduler:
                scheduler.step()
            for k, v in p.items():
                v.grad = None
                if average:
                    averages[k] = average * averages[k] + (1 - average) * v.detach()
        scales.append(scaler.get_scale() if scaler else 1)
        if t + 1 in KEPT:
            for k, v in p.items():
                kept[k].append((averages[k] if average else v.detach()).numpy().copy())
    arrays.update({f"{name}.{k}": numpy.stack(v) for k, v in kept.items()})
    if scaler:
        arrays[f"{name}.scales"] = numpy.array(scales)
    if clip and any(norms):
        arrays[f"{name}.norms"] = numpy.array(norms)


def of(kind, lr, **options):
    return lambda p: kind(list(p.values()), lr=lr, **options)


def grouped(p):
    return torch.optim.AdamW([{"params": [p["w"]]}, {"params": [p["b"]], "weight_decay": 0, "lr": 0.005}], lr=0.05, weight_decay=0.1)


optim = torch.optim
run("sgd", of(optim.SGD, 0.1))
run("sgd_decay", of(optim.SGD, 0.1, weight_decay=0.2))
run("momentum", of(optim.SGD, 0.1, momentum=0.9))
run("momentum_decay", of(optim.SGD, 0.1, momentum=0.9, weight_decay=0.2))
run("nesterov", of(optim.SGD, 0.1, momentum=0.8, nesterov=True))
run("nesterov_decay", of(optim.SGD, 0.1, momentum=0.8, nesterov=True, weight_decay=0.2))
run("adam", of(optim.Adam, 0.05))
run("adam_options", of(optim.Adam, 0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.2))
run("adamw", of(optim.AdamW, 0.05))
run("adamw_options", of(optim.AdamW, 0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3))
run("rmsprop", of(optim.RMSprop, 0.05))
run("rmsprop_momentum", of(optim.RMSprop, 0.05, alpha=0.9, eps=1e-3, momentum=0.7, weight_decay=0.2))
run("rmsprop_centered", of(optim.RMSprop, 0.05, centered=True))
run("rmsprop_all", of(optim.RMSprop, 0.05, alpha=0.9, momentum=0.7, centered=True))
run("adagrad", of(optim.Adagrad, 0.1))
run("adagrad_decay", of(optim.Adagrad, 0.1, eps=1e-3, weight_decay=0.2))
run("lion", of(Lion, 0.02))
run("lion_options", of(Lion, 0.02, betas=(0.8, 0.95), weight_decay=0.3))
run("group", grouped)
run("clip_value", of(optim.SGD, 0.1), clip=lambda p: torch.nn.utils.clip_grad_value_(p, 0.4))
run("clip_norm", of(optim.Adam, 0.05), clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5))
run("accumulate", of(optim.AdamW, 0.05), accumulate=3)
run("average", of(optim.SGD, 0.1, momentum=0.9), average=0.8)
run("cosine", of(optim.AdamW, 0.05), schedule=lambda o: lr_scheduler.CosineAnnealingLR(o, 20, eta_min=0.005))
run("accumulate_exponential", of(optim.SGD, 0.1), accumulate=3, schedule=lambda o: lr_scheduler.ExponentialLR(o, 0.8))
scaler = lambda: torch.amp.GradScaler("cpu", init_scale=1024.0, growth_factor=2.0, backoff_factor=0.25, growth_interval=3)
run("scaled", of(optim.Adam, 0.05), scaler=scaler(), bad=(2, 8, 9))
run("scaled_accumulated", of(optim.Adam, 0.05), scaler=scaler(), accumulate=2, bad=(4, 11), clip=lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5))


def rates(name, make, steps=30):
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    scheduler, found = make(optimizer), []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    arrays[f"rates.{name}"] = numpy.array(found)


def after_warmup(o, steps, first, then):
    return lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o, first, 1.0, steps), then], [steps])


rates("warmup", lambda o: lr_scheduler.LinearLR(o, 0.25, 1.0, 8))
rates("linear", lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, 24))
rates("cosine", lambda o: lr_scheduler.CosineAnnealingLR(o, 29, eta_min=0.04))
rates("cosine_warmup", lambda o: after_warmup(o, 5, 0.2, lr_scheduler.CosineAnnealingLR(o, 25)))
rates("step", lambda o: lr_scheduler.StepLR(o, 7))
rates("step_gamma", lambda o: after_warmup(o, 4, 0.5, lr_scheduler.StepLR(o, 5, 0.7)))
rates("exponential", lambda o: lr_scheduler.ExponentialLR(o, 0.93))
rates("one_cycle", lambda o: lr_scheduler.OneCycleLR(o, 0.4, total_steps=30, cycle_momentum=False))
rates("one_cycle_options", lambda o: lr_scheduler.OneCycleLR(o, 0.4, total_steps=30, pct_start=0.45, div_factor=10, final_div_factor=100, cycle_momentum=False))
rates("own", lambda o: lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + t)))

numpy.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else "tests/optimizers/trajectories.npz", **arrays)
