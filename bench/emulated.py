#!/usr/bin/env python3
"""Counts of kernels on emulated GPUs, and the share of a card's memory bandwidth that they allow: bench/emulated.py --help.

Rows of `berth bench` run once on an emulated GPU (tests/fakes), which counts sectors, conflicts, divergence, waits and instructions of the
first, the last and 64 drawn blocks of each launch, scaled to the grid. Rows whose addresses depend on what other kernels computed run
whole, and once for all cards. The share is a model, not a measurement: first-level caches are left out, and a kernel takes the longest of
  memory        bytes of the distinct 32-byte sectors / bandwidth of the memory
  cache         bytes of all requested sectors / bandwidth of the second-level cache
  instructions  warp instructions + additional passes over banks / (multiprocessors x 4 schedulers x clock)
  latency       waits of warps for loads x 600 ns / resident warps
and a row takes the sum over its launches, with 2 us each. The share is the row's least traffic / bandwidth / that time. A product of
cuBLASLt is not run: it is counted, and taken to need what its operations take at the card's peak, or its operands at the bandwidth.

--measured FILE (what `berth bench --json` printed on a real card) prints what the model predicts beside it."""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLED = ("large_elementwise large_sum large_softmax large_layer_norm large_transpose_add large_gather elementwise elementwise_compiled "
           "linspace random100m softmax layer_norm sum sum_axis0 sum_axis1 transpose_add broadcast gather argmax cumsum cumsum_short "
           "cumsum_axis0").split()
WHOLE = "sort sort_short sort_indices topk scatter_add scatter_add_one scatter_axis take_gradient".split()
# Rows without a least traffic: a time in place of a share. (Of no interest here: random100m_mixed, compile, startup.)
TIMED = "dependent_adds launch launch_100 launch_graph step_small step_medium step_large matmul_small matmul1024 matmul2048 matmul4096".split()
TIMED += [f"matmul_{kind}_{side}" for kind in ("f32", "tf32", "fast_bf16", "bf16") for side in (1024, 2048, 4096, 8192, 16384)]
ROWS = SAMPLED + WHOLE + TIMED
# name: (multiprocessors, clock in GHz, GB/s of the memory, GB/s of the second-level cache, warps resident at most).
# h200:    "NVIDIA H200 Tensor Core GPU Datasheet" (SXM: memory), "NVIDIA H100 Tensor Core GPU Architecture" (SXM5: multiprocessors);
#          clock: the most that nvidia-smi reports of H100 SXM5 and H200, 1,980 MHz
# a100:    "NVIDIA A100 Tensor Core GPU Architecture" (multiprocessors, clock), "NVIDIA A100 80GB Datasheet" (SXM: memory)
# rtx4090: "NVIDIA Ada GPU Architecture", appendix A
# warps:   "CUDA C++ Programming Guide", technical specifications per compute capability (9.0, 8.0, 8.9)
# The caches' bandwidths are assumed, from no source, as are LATENCY_S and LAUNCH_S.
CARDS = {"h200": (132, 1.98, 4800, 5500, 64), "a100": (108, 1.41, 2039, 4000, 64), "rtx4090": (128, 2.52, 1008, 5000, 48)}
LATENCY_S, LAUNCH_S = 600e-9, 2e-6
SHARE_HEADS = ["row", "MiB", "launches", "sectors", "requested / least", "distinct / least", "requested / needed", "bank conflicts",
               "divergent", "instructions", "registers", "shared memory", "resident blocks"]
TIME_HEADS = ["row", "launches", "sectors", "warp instructions", "products", "GFLOP", "MiB of products"]
# TFLOP/s of products without sparsity, added in float32, of the same data sheets.
PEAKS = {"h200": {"f32": 67, "tf32": 494, "bf16": 989}, "a100": {"f32": 19.5, "tf32": 156, "bf16": 312},
         "rtx4090": {"f32": 82.6, "tf32": 82.6, "bf16": 165.2}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=" ".join(ROWS) + " when none is named")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--cards", default=",".join(CARDS))
    parser.add_argument("--shrink", type=int, default=4, help="of large rows (%(default)s: 64 MiB)")
    parser.add_argument("--sample", type=int, default=64, help="blocks drawn of each launch (%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the table as Markdown (bench/results/emulated.md)")
    parser.add_argument("--measured", type=Path, nargs="+", metavar="FILE", help="figures of the first of the cards, with the same --shrink")
    return parser.parse_args()


def run_row(row, card, chosen, counts):
    """(least bytes, the launches and products of one repetition, its steps) of a row; ValueError where it cannot be run."""
    environment = dict(os.environ, BERTH_FAKE_COUNTS=str(counts), BERTH_FAKE_SAMPLE=str(0 if row in WHOLE else chosen.sample),
                       BERTH_FAKE_WATCH="off")
    command = [chosen.build / "tests/emulated", "--gpus", "1", "--model", card, chosen.build / "berth", "bench", "--interactive",
               "--device", "cuda", "--shrink", str(chosen.shrink)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as child:
        def repeat(number):
            with contextlib.suppress(BrokenPipeError):  # it may have ended already, and said why
                child.stdin.write(f"{row} {number}\n".encode())
            line = child.stdout.readline().decode()
            if line.startswith("skipped"):
                print(line.strip())
                sys.exit(77)
            if not line:
                raise ValueError("berth bench ended")
            answer = json.loads(line)
            if "error" in answer:
                raise ValueError(answer["error"])
            return answer

        repeat(0)  # its inputs are made, its kernels compiled
        before = counts.stat().st_size if counts.exists() else 0
        answer = repeat(1)
        launches = [json.loads(line) for line in counts.read_bytes()[before:].decode().splitlines()]
        child.stdin.close()
    if not launches:
        raise ValueError("no launch was counted")
    return answer["bytes"], launches, answer["steps"]


def seconds_of_product(product, card):
    peak = PEAKS[card][product["product"].removeprefix("fast_")]
    return LAUNCH_S + max(product["bytes"] / (CARDS[card][2] * 1e9), 2 * product["multiplications"] / (peak * 1e12))


def seconds_of(launch, card):
    if "product" in launch:
        return seconds_of_product(launch, card)
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


def line_of_timed(row, all_launches, steps, seconds):
    products = [launch for launch in all_launches if "product" in launch]
    launches = [launch for launch in all_launches if "product" not in launch]

    def mean(key, of):
        return sum(launch[key] for launch in of) / steps
    return [row, f"{len(launches) / steps:.0f}", f"{mean('sectors', launches):.0f}", f"{mean('instructions', launches):.0f}",
            f"{len(products) / steps:.0f}", f"{2 * mean('multiplications', products) / 1e9:.3f}", f"{mean('bytes', products) / 2**20:.2f}",
            *(f"{1e6 * each:.1f}" for each in seconds)]


def markdown(heads, table):
    return ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *("| " + " | ".join(cells) + " |" for cells in table)]


def write_tables(path, shares, timed, cards):
    lines = ["# Kernels on an emulated GPU", "",
             "**A model, not a measurement.** No GPU was there: the emulator of PTX in `tests/fakes` counted what kernels request, and a model",
             "makes a share of the memory's bandwidth of it (`bench/emulated.py --help`). The model has not been compared with a real card.",
             f"Counts are those of {cards[0]}'s code. Made by `bench/emulated.py --write bench/results/emulated.md`.", "",
             "Multiprocessors, clocks, bandwidths of the memory and peaks of products are those of NVIDIA's data sheets, which `bench/emulated.py`",
             "names. **Assumed**, from no source: the bandwidths of the caches "
             + "(" + ", ".join(f"{card} {CARDS[card][3]} GB/s" for card in cards) + f"), {LATENCY_S * 1e9:.0f} ns",
             f"for a load, and {LAUNCH_S * 1e6:.0f} us for a launch.", "",
             "- MiB: the least traffic, inputs and outputs once; sectors: 32-byte sectors requested by all launches of one repetition",
             "- requested / least: bytes of these sectors by the least traffic; an operand that is read again from a cache counts again",
             "- distinct / least: the same for sectors that a launch requests for the first time, which come from the memory",
             "- requested / needed: sectors by those that each request's own bytes need; above 1 where threads read apart from each other",
             "- bank conflicts: additional passes for each request to shared memory",
             "- divergent: share of warp instructions with less than all threads; instructions: of threads, for each 4 bytes of traffic",
             "- registers, shared memory (bytes), resident blocks (on a multiprocessor): of the launch with the most sectors",
             "- the last columns: the share of the card's memory bandwidth that the model allows, launches included; above 100% where rows are",
             "  gathered again from the cache", "", *markdown(SHARE_HEADS + cards, shares)]
    if timed:
        lines += ["", "Rows without a least traffic, for each of their steps (sides of `matmul_KIND_N` are divided by `--shrink`). Products are",
                  "cuBLASLt's, of which operations, and MiB of operands and results are counted; the last columns are the model's microseconds,",
                  "in which a product takes what the card's peak or bandwidth allows.", "",
                  *markdown(TIME_HEADS + [f"{card} us" for card in cards], timed)]
    path.write_text("\n".join(lines) + "\n")


def compare(files, predicted):
    """Prints what the model predicts of each row that was measured, beside it."""
    figures = [json.loads(path.read_text()) for path in files]
    lists = [one for figure in figures for one in (figure["bench"] if isinstance(figure, dict) else [figure])]
    measured = {row["row"]: row["median_s"] for one in lists for row in one}
    close, both = 0, [row for row in predicted if row in measured]
    print("| row | predicted us | measured us | measured / predicted |\n| --- | ---: | ---: | ---: |")
    for row in both:
        ratio = measured[row] / predicted[row]
        close += 1 / 1.3 <= ratio <= 1.3
        print(f"| {row} | {predicted[row] * 1e6:.1f} | {measured[row] * 1e6:.1f} | {ratio:.2f} |")
    print(f"\n{close} of {len(both)} rows within 30 %")


def main():
    chosen = parse()
    cards = chosen.cards.split(",")
    shares, timed, predicted, left_out = [], [], {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen.rows or ROWS:
            seconds = []
            try:
                for card in cards:
                    if card == cards[0] or row in SAMPLED:  # minutes; others use the first card's counts
                        least, launches, steps = run_row(row, card, chosen, Path(folder) / f"{row}-{card}")
                    seconds.append(sum(seconds_of(launch, card) for launch in launches) / steps)
                    if card == cards[0]:
                        first = launches
            except ValueError as why:
                print(f"{row}: left out: {why}", file=sys.stderr, flush=True)
                left_out += 1
                continue
            predicted[row] = seconds[0]
            if row in TIMED:
                timed.append(line_of_timed(row, first, steps, seconds))
            else:
                shares.append(line_of(row, least, first, [least / (CARDS[card][2] * 1e9) / each for card, each in zip(cards, seconds)]))
            print("  ".join(timed[-1] if row in TIMED else shares[-1]), flush=True)
    if chosen.write:
        write_tables(chosen.write, shares, timed, cards)
    if chosen.measured:
        compare(chosen.measured, predicted)
    return 1 if left_out and not chosen.measured else 0


if __name__ == "__main__":
    sys.exit(main())
