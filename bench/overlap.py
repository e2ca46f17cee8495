#!/usr/bin/env python3
"""How much of the sums of gradients hides behind the backward pass, on simulated cards with a model: bench/overlap.py --help.

A mirrored step (bench/overlap.c) runs on such cards, and its timeline is read. For each card:

    C, R       the time of its kernels, and of its collectives, each summed up
    T          from its first kernel to the end of its last one
    T*         the least that T could be with these very kernels and collectives: kernels without gaps, in their order; each collective as soon as
               the kernels that it waited for are done and the one before it is; updates that read the last collective after it
    reached    C + R - T: what ran at the same time as something else
    allowed    C + R - T*

The share of the worst card is told. No time is measured: a model makes all of them (src/drivers/sim/sim_model.def)."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--devices", default="sim:h200*4")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=1024, help="of each GPU (%(default)s)")
    parser.add_argument("--least", type=float, default=0, help="exits with 1 where the share is less (a number from 0 to 1)")
    return parser.parse_args()


def trace_of(options, way):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        flags = f"devices={options.devices},sim_data=off"
        command = [options.build / "bench/overlap", file.name, options.layers, options.width, options.rows, way]
        subprocess.run([str(word) for word in command], check=True, env={**os.environ, "BERTH_FLAGS": flags})
        return json.load(open(file.name))["traceEvents"]


def cards_of(events):
    """By card: its kernels and collectives as (start, end), in order; microseconds."""
    cards = {}
    for event in events:
        if event.get("ph") == "X" and event["cat"] in ("kernel", "collective"):
            card = cards.setdefault(event["pid"], {"kernel": [], "collective": []})
            card[event["cat"]].append((event["ts"], event["ts"] + event["dur"]))
    for card in cards.values():
        for spans in card.values():
            spans.sort()
    return {pid: card for pid, card in cards.items() if card["collective"]}


def least(card):
    """T*."""
    kernels, collectives = card["kernel"], card["collective"]
    last_end = collectives[-1][1]
    before = [k for k in kernels if k[0] < last_end]
    after = sum(end - start for start, end in kernels if start >= last_end)
    computed = sum(end - start for start, end in before)
    link = 0
    for start, end in collectives:
        ready = sum(k[1] - k[0] for k in before if k[1] <= start + 1e-6)
        link = max(link, ready) + end - start
    return max(computed, link) + after


def figures(card):
    kernels, collectives = card["kernel"], card["collective"]
    c = sum(end - start for start, end in kernels)
    r = sum(end - start for start, end in collectives)
    t = kernels[-1][1] - kernels[0][0]
    bound = least(card)
    return {"C": c, "R": r, "T": t, "T*": bound, "reached": c + r - t, "allowed": c + r - bound}


def main():
    options = parse()
    print(f"{options.layers} dense layers of {options.width}, float32, {options.rows} rows for each GPU, {options.devices}; microseconds\n")
    print("| batch | buckets | kernels C | collectives R | step T | at least T* | reached | allowed | share |")
    print("|---|---|---|---|---|---|---|---|---|")
    worst = 1
    for way, words in ("given", "in parts on the GPUs"), ("spread", "spread from the first GPU"):
        told = [(figures(card), len(card["collective"])) for card in cards_of(trace_of(options, way)).values()]
        f, buckets = min(told, key=lambda one: one[0]["reached"] / one[0]["allowed"])
        share = f["reached"] / f["allowed"]
        worst = min(worst, share)
        cells = [f"{f[key]:.1f}" for key in ("C", "R", "T", "T*", "reached", "allowed")]
        print(f"| {words} | {buckets} | " + " | ".join(cells) + f" | {share:.1%} |")
    return worst < options.least


if __name__ == "__main__":
    sys.exit(main())
