#!/usr/bin/env python3
"""Counts of kernels on emulated GPUs, and the share of a card's memory bandwidth that they allow: bench/emulated.py --help.

Rows of `berth bench` run once on an emulated GPU (tests/fakes), which counts sectors, conflicts, divergence, waits and instructions of the
first, the last and 64 drawn blocks of each launch, scaled to the grid. Rows whose addresses depend on what other kernels computed run
whole, and once for all cards. The share is a model, not a measurement: first-level caches are left out, and a kernel takes the longest of
  memory        bytes of the distinct 32-byte sectors / bandwidth of the memory
  cache         bytes of all requested sectors / bandwidth of the second-level cache
  instructions  warp instructions + additional passes over banks / (multiprocessors x 4 schedulers x clock)
  latency       waits of warps for loads x 600 ns / resident warps
and a row takes the sum over its launches, with 2 us each. The share is the row's least traffic / bandwidth / that time."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLED = ("large_elementwise large_sum large_softmax large_layer_norm large_transpose_add large_gather softmax layer_norm sum_axis0 "
           "sum_axis1 transpose_add broadcast gather argmax cumsum cumsum_short cumsum_axis0").split()
WHOLE = "sort sort_short scatter_add scatter_add_one scatter_axis take_gradient".split()
ROWS = SAMPLED + WHOLE
# name: (multiprocessors, clock in GHz, GB/s of the memory, GB/s of the second-level cache, warps resident at most). NVIDIA's data sheets;
# the caches' figures are assumed, from no source
CARDS = {"h200": (132, 1.98, 4800, 5500, 64), "a100": (108, 1.41, 2039, 4000, 64), "rtx4090": (128, 2.52, 1008, 5000, 48)}
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
    environment = dict(os.environ, BERTH_FAKE_COUNTS=str(counts), BERTH_FAKE_SAMPLE=str(0 if row in WHOLE else chosen.sample),
                       BERTH_FAKE_WATCH="off")
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
    multiprocessors, gigahertz, memory, cache, most_warps = CARDS[card]
    of_block = -(-launch["threads"] // 32)
    warps = min(most_warps * multiprocessors, launch["resident_blocks"] * of_block * multiprocessors, launch["blocks"] * of_block)
    issue = (launch["instructions"] + launch["bank_conflicts"]) / (min(multiprocessors, launch["blocks"]) * 4 * gigahertz * 1e9)
    return LAUNCH_S + max(launch["sectors_distinct"] * 32 / (memory * 1e9), launch["sectors"] * 32 / (cache * 1e9), issue,
                          launch["load_waits"] * LATENCY_S / max(1, warps))


def line_of(row, least, launches, shares):
    def total(key):
        return sum(launch[key] for launch in launches)
    main = max(launches, key=lambda launch: launch["sectors"])
    return [row, f"{least / 2**20:.0f}", str(len(launches)), str(total("sectors")), f"{total('sectors') * 32 / least:.2f}",
            f"{total('sectors_distinct') * 32 / least:.2f}", f"{total('sectors') / max(1, total('sectors_needed')):.2f}",
            f"{total('bank_conflicts') / max(1, total('shared_requests')):.2f}",
            f"{total('divergent') / max(1, total('instructions')):.1%}", f"{total('instructions') * 32 / (least / 4):.1f}",
            str(main["registers"]), str(main["shared_bytes"]), str(main["resident_blocks"]), *(f"{share:.0%}" for share in shares)]


def write_table(path, heads, table, cards):
    lines = ["# Kernels on an emulated GPU", "",
             "**A model, not a measurement.** No GPU was there: the emulator of PTX in `tests/fakes` counted what kernels request, and a model",
             "makes a share of the memory's bandwidth of it (`bench/emulated.py --help`). The model has not been compared with a real card.",
             f"Counts are those of {cards[0]}'s code. Made by `bench/emulated.py --write bench/results/emulated.md`.", "",
             "- MiB: the least traffic, inputs and outputs once; sectors: 32-byte sectors requested by all launches of one repetition",
             "- requested / least: bytes of these sectors by the least traffic; an operand that is read again from a cache counts again",
             "- distinct / least: the same for sectors that a launch requests for the first time, which come from the memory",
             "- requested / needed: sectors by those that each request's own bytes need; above 1 where threads read apart from each other",
             "- bank conflicts: additional passes for each request to shared memory",
             "- divergent: share of warp instructions with less than all threads; instructions: of threads, for each 4 bytes of traffic",
             "- registers, shared memory (bytes), resident blocks (on a multiprocessor): of the launch with the most sectors",
             "- the last columns: the share of the card's memory bandwidth that the model allows, launches included; above 100% where rows are",
             "  gathered again from the cache", "",
             "| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    path.write_text("\n".join(lines + ["| " + " | ".join(cells) + " |" for cells in table]) + "\n")


def main():
    chosen = parse()
    cards = chosen.cards.split(",")
    heads = ["row", "MiB", "launches", "sectors", "requested / least", "distinct / least", "requested / needed", "bank conflicts",
             "divergent", "instructions", "registers", "shared memory", "resident blocks", *cards]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen.rows or ROWS:
            shares = []
            for card in cards:
                if card == cards[0] or row not in WHOLE:  # minutes; these use the first card's counts
                    least, launches = run_row(row, card, chosen, Path(folder) / f"{row}-{card}")
                shares.append(least / (CARDS[card][2] * 1e9) / sum(seconds_of(launch, card) for launch in launches))
                if card == cards[0]:
                    first = launches
            table.append(line_of(row, least, first, shares))
            print("  ".join(table[-1]), flush=True)
    if chosen.write:
        write_table(chosen.write, heads, table, cards)


if __name__ == "__main__":
    main()
