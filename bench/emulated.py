#!/usr/bin/env python3
"""Counts of kernels on emulated GPUs, and the share of a card's memory bandwidth that they allow: bench/emulated.py --help.

Rows of `berth bench` run once on an emulated GPU (tests/fakes), which counts sectors, conflicts, divergence and instructions of the
first, the last and 64 drawn blocks of each launch, scaled to the grid. The share is a model of ours, not a measurement: a kernel takes
the longest of
  traffic       bytes of all 32-byte sectors requested / bandwidth
  instructions  warp instructions + additional passes over banks / (multiprocessors x 4 schedulers x clock)
  latency       sectors x 32 / bytes in flight, by Little's law: resident warps x one request of its width each, 600 ns
and a row takes the sum over its launches, with 2 us each. The share is the row's least traffic / bandwidth / that time."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = "large_elementwise large_sum large_softmax large_layer_norm large_transpose_add large_gather sum_axis0 sum_axis1 broadcast".split()
# name: (multiprocessors, clock in GHz, GB/s, warps resident at most), of NVIDIA's data sheets
CARDS = {"h200": (132, 1.98, 4800, 64), "a100": (108, 1.41, 2039, 64), "rtx4090": (128, 2.52, 1008, 48)}
LATENCY_S, LAUNCH_S = 600e-9, 2e-6


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=" ".join(ROWS) + " when none is named")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--cards", default=",".join(CARDS))
    parser.add_argument("--shrink", type=int, default=4, help="of large rows (%(default)s: 64 MiB)")
    parser.add_argument("--sample", type=int, default=64, help="blocks drawn of each launch (%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the table as Markdown (bench/results/emulated.md)")
    return parser.parse_args()


def run_row(row, card, chosen, counts):
    """(least bytes, the launches of one repetition) of a row."""
    environment = dict(os.environ, BERTH_FAKE_COUNTS=str(counts), BERTH_FAKE_SAMPLE=str(chosen.sample))
    command = [chosen.build / "tests/emulated", "--gpus", "1", "--model", card, chosen.build / "berth", "bench", "--interactive",
               "--device", "cuda", "--shrink", str(chosen.shrink)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        def repeat(number):
            child.stdin.write(f"{row} {number}\n")
            child.stdin.flush()
            line = child.stdout.readline()
            if line.startswith("skipped") or not line:
                sys.exit(line.strip() or f"{row}: berth bench ended")
            return json.loads(line)

        repeat(0)  # its inputs are made, its kernels compiled
        before = counts.stat().st_size if counts.exists() else 0
        answer = repeat(1)
        launches = [json.loads(line) for line in counts.read_bytes()[before:].decode().splitlines()]
        child.stdin.close()
    if not launches:
        sys.exit(f"{row}: no launch was counted")
    return answer["bytes"], launches


def seconds_of(launch, card):
    multiprocessors, gigahertz, bandwidth, most_warps = CARDS[card]
    traffic = launch["sectors"] * 32 / (bandwidth * 1e9)
    issue = (launch["instructions"] + launch["bank_conflicts"]) / (multiprocessors * 4 * gigahertz * 1e9)
    warps = min(most_warps, launch["resident"] * -(-launch["threads"] // 32)) * multiprocessors
    width = launch["sectors"] * 32 / max(1, launch["requests"])
    latency = launch["sectors"] * 32 / max(1, warps * width) * LATENCY_S
    return max(traffic, issue, latency) + LAUNCH_S


def line_of(row, least, launches, shares):
    def total(key):
        return sum(launch[key] for launch in launches)
    main = max(launches, key=lambda launch: launch["sectors"])
    return [row, f"{least / 2**20:.0f}", str(len(launches)), f"{total('sectors') * 32 / least:.3f}",
            f"{total('sectors') / max(1, total('sectors_needed')):.3f}",
            f"{total('bank_conflicts') / max(1, total('shared_requests')):.2f}",
            f"{total('divergent') / max(1, total('instructions')):.3f}", f"{total('instructions') * 32 / (least / 4):.1f}",
            str(main["registers"]), str(main["shared"]), str(main["resident"]), *(f"{share:.0%}" for share in shares)]


def main():
    chosen = parse()
    cards = chosen.cards.split(",")
    heads = ["row", "MiB", "launches", "bytes / least", "sectors / needed", "conflicts / request", "divergent", "instructions / 4 bytes",
             "registers", "shared", "resident blocks", *cards]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen.rows or ROWS:
            shares = []
            for card in cards:
                least, launches = run_row(row, card, chosen, Path(folder) / f"{row}-{card}")
                shares.append(least / (CARDS[card][2] * 1e9) / sum(seconds_of(launch, card) for launch in launches))
                if card == cards[0]:
                    first = launches
            table.append(line_of(row, least, first, shares))
            print("  ".join(table[-1]), flush=True)
    if chosen.write:
        lines = ["# Kernels on an emulated GPU", "",
                 "Counted by the emulator of PTX in `tests/fakes`, not measured: no GPU was there. The columns of cards are the share of the",
                 "memory bandwidth that a model allows for these counts (`bench/emulated.py --help` has the model); it has not been compared",
                 f"with a real card. Counts are those of {cards[0]}'s code. Made by `bench/emulated.py --write`.", "",
                 "| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        chosen.write.write_text("\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in table]) + "\n")


if __name__ == "__main__":
    main()
