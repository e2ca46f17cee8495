#!/usr/bin/env python3
"""Batches of berth's loader and of PyTorch's DataLoader, beside a copy in memory: bench/loader.py --help.

Each side runs in a process of its own, berth first, then PyTorch, and so on; each measures an epoch of shuffled batches beside copies of as many
bytes, in pairs, so the quotients of both can be compared on a busy machine too. PyTorch is the one that bench/peers.py has installed."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {"images": (60000, 784, 1024), "large": (512, 150528, 32), "small": (2000000, 16, 4096)}
KINDS = [*SHAPES, "file", "function", "ordered"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=" ".join(KINDS) + " (all)")
    parser.add_argument("--rounds", type=int, default=15, help="(%(default)s)")
    parser.add_argument("--write", metavar="FILE", type=Path, help="writes the table as Markdown too")
    parser.add_argument("--torch-side", metavar="KIND", help=argparse.SUPPRESS)
    return parser.parse_args()


def python_of_torch():
    cache = os.environ.get("BERTH_BENCH_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth-bench"
    python = Path(cache) / "venv-torch/bin/python"
    return python if python.exists() else None


def torch_side(kind, rounds):
    """In a process of PyTorch: an epoch by whole batches of indices, and one by the defaults, which fetch example by example."""
    import torch
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset
    torch.set_num_threads(1)
    rows, columns, batch = SHAPES[kind]
    x = (torch.arange(rows * columns) % 1009).to(torch.float32).reshape(rows, columns)
    copies = [torch.empty(batch, columns) for _ in range(8)]
    whole = TensorDataset(x)
    loaders = {"by index lists": DataLoader(whole, sampler=BatchSampler(RandomSampler(whole), batch, False), batch_size=None),
               "default": DataLoader(whole, batch_size=batch, shuffle=True)}
    if kind == "small":
        del loaders["default"]  # takes minutes
    for name, loader in loaders.items():
        quotients, rates = [], []
        for _ in range(rounds if name != "default" else 3):
            start = time.perf_counter()
            for i in range(0, rows, batch):
                part = x[i:i + batch]
                copies[i // batch % 8][:len(part)].copy_(part)
            copied = time.perf_counter() - start
            start = time.perf_counter()
            for _ in loader:
                pass
            taken = time.perf_counter() - start
            quotients.append(copied / taken)
            rates.append(x.nbytes / taken)
        print(json.dumps({"kind": kind, "side": f"PyTorch, {name}", "loader": statistics.median(rates), "quotient": statistics.median(quotients)}))


def run(command):
    lines = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def side_of(row):
    if "side" in row:
        return row["side"]
    return "berth, " + ("no worker" if not row["workers"] else "1 worker" if row["workers"] == 1 else f"{row['workers']} workers")


def main():
    options = parse()
    if options.torch_side:
        return torch_side(options.torch_side, options.rounds)
    python, rows = python_of_torch(), []
    for kind in options.kinds or KINDS:
        rows += run([ROOT / "build/release/bench/loader", kind, options.rounds])
        if python and kind in SHAPES:
            rows += run([python, __file__, "--torch-side", kind, "--rounds", options.rounds])
    table = ["| kind | side | GB/s | of a copy |", "| --- | --- | ---: | ---: |"]
    table += [f"| `{row['kind']}` | {side_of(row)} | {row['loader'] / 1e9:.3g} | {row['quotient']:.2f} |" for row in rows]
    print("\n".join(table))
    if options.write:
        load = os.getloadavg()[0]
        options.write.write_text("# Batches of a loader\n\nMade by `bench/loader.py`: the median of pairs, an epoch of batches and a copy of as many bytes by one thread. "
                                 f"Load of the machine at the end: {load:.1f}.\n\n" + "\n".join(table) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
