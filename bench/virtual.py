#!/usr/bin/env python3
"""Times of simulated devices' models beside what they can be compared with: bench/virtual.py --help.

Without --measured and --cpu two models, no measurement. The table bench/results/emulated.md holds what a model makes of sectors and
instructions that the emulated GPU counted when it ran the kernels. A simulated card with a model (`devices=sim:h200*1`) runs no kernel of
a GPU: its time comes from the operands and operations alone (src/drivers/sim/sim_estimate.h). Each row of the table is run once on such a
card; the ratio of the times tells where the second model departs from what was counted. With --measured both are of a real card: what the
model is worth. With --cpu both are of this machine's CPU, on one core (flag threads=1): each row of `berth bench` is run on it, and on its
model, whose figures `berth bench --figures` measures unless --figures has them. What is measured is the processor's time of the process,
which other processes do not lengthen by running in between; the rest of the machine should be idle still, since it shares caches and memory."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHRINK = 4  # that the table was made with
BANDWIDTHS = {"h200": 4800e9, "a100": 2039e9, "rtx4090": 1008e9}  # of bench/emulated.py
NO_DEVICE = ("startup", "compile", "random100m_mixed")  # rows of what no device does, or two
LEAST, SECONDS = 3, 1  # repetitions of a row, and how long more of them may take


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all of the table when none is named")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--card", choices=BANDWIDTHS, default="h200")
    parser.add_argument("--table", type=Path, default=ROOT / "bench/results/emulated.md")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="instead: beside the rows of a figures.json of bench/gpu.sh, in their sizes, without data")
    parser.add_argument("--cpu", action="store_true", help="instead: this CPU and its model")
    parser.add_argument("--figures", default="", help="of the model, other than its own: bandwidth=4100/f32=51")
    return parser.parse_args()


def emulated_seconds(path, card):
    """By row, what the table has: ("share", of the bandwidth) or ("seconds", for a step)."""
    found, heads = {}, []
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| row"):
            heads = cells
        elif heads and line.startswith("| ") and not line.startswith("| ---"):
            row = dict(zip(heads, cells))
            if card in row:
                found[row["row"]] = ("share", float(row[card].rstrip("%")) / 100)
            else:
                found[row["row"]] = ("seconds", float(row[f"{card} us"]) * 1e-6)
    return found


def measured_seconds(path):
    """By row, but those that compile or use another device too."""
    rows = [row for group in json.loads(path.read_text())["bench"] for row in group]
    return {row["row"]: ("seconds", row["median_s"]) for row in rows if row["row"] not in NO_DEVICE}


class Bench:
    """A process of `berth bench --interactive` with such flags."""

    def __init__(self, build, flags, arguments):
        self.process = subprocess.Popen([build / "berth", "bench", "--interactive", *arguments], env=dict(os.environ, BERTH_FLAGS=flags),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, row, repetition):
        """The answer; one with an error where the row cannot run."""
        self.process.stdin.write(f"{row} {repetition}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process ended"}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def modelled(build, flags, arguments, row):
    """The answer of the second repetition, when plans and programs are there."""
    bench = Bench(build, flags, arguments)
    answer = bench.run(row, 0)
    answer = answer if "error" in answer else bench.run(row, 1)
    bench.end()
    if "error" in answer:
        print(f"{row}: left out: {answer['error']}", file=sys.stderr)
    return None if "error" in answer else answer


def common_rows(build):
    """Those that `berth bench` runs on the CPU, and those of launches."""
    text = subprocess.run([build / "berth", "bench", "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    listed = re.search(r"Rows \(default: all\):(.*?); with --device", text, re.DOTALL).group(1)
    return [row for row in re.findall(r"\w+", listed) + ["launch", "launch_100"] if row not in NO_DEVICE]


def processor_seconds(build, row):
    """The median of a row's repetitions."""
    bench, found = Bench(build, "threads=1", ["--device", "cpu"]), []
    bench.run(row, 0)  # the warm-up
    begun = time.monotonic()
    while len(found) < LEAST or time.monotonic() - begun < SECONDS:
        found.append(bench.run(row, len(found) + 1)["processor_seconds"])
    bench.end()
    return statistics.median(found)


def compare_cpu(chosen):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    figures = chosen.figures
    if not figures:
        made = subprocess.run([chosen.build / "berth", "bench", "--figures"], env=dict(os.environ, BERTH_FLAGS="threads=1"),
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        figures = made[made.index("{") + 1:made.index("}")]
    print(f"figures: zen3{{{figures}}}\n\n| row | measured us | by the model us | error |\n| --- | ---: | ---: | ---: |")
    errors = []
    for row in chosen.rows or common_rows(chosen.build):
        answer = modelled(chosen.build, f"threads=1,devices=sim:zen3{{{figures}}}", ["--device", "cpu"], row)
        if answer:
            seconds = processor_seconds(chosen.build, row)
            errors.append(answer["seconds"] / seconds - 1)
            print(f"| {row} | {seconds * 1e6:.4g} | {answer['seconds'] * 1e6:.4g} | {errors[-1]:+.0%} |", flush=True)
    sizes = sorted(map(abs, errors))
    if len(sizes) > 1:
        quarters = statistics.quantiles(sizes, n=4, method="inclusive")
        print(f"\n{len(sizes)} rows; a quarter errs by at most {quarters[0]:.0%}, half by at most {quarters[1]:.0%}, "
              f"three quarters by at most {quarters[2]:.0%}")
    return 0 if errors else 1


def main():
    chosen = parse()
    if chosen.cpu:
        return compare_cpu(chosen)
    table = measured_seconds(chosen.measured) if chosen.measured else emulated_seconds(chosen.table, chosen.card)
    card = chosen.card + ("{" + chosen.figures + "}" if chosen.figures else "")
    flags = f"devices=sim:{card}*1," + ("sim_data=off" if chosen.measured else "matmul_precision=highest")
    arguments = ["--device", "gpu:0"] + ([] if chosen.measured else ["--shrink", str(SHRINK)])
    ratios = []
    print(f"| row | {'measured' if chosen.measured else 'by counts'} us | by the model us | ratio |\n| --- | ---: | ---: | ---: |")
    for row in chosen.rows or table:
        answer = modelled(chosen.build, flags, arguments, row)
        if not answer:
            continue
        what, figure = table[row]
        counted = figure if what == "seconds" else answer["bytes"] / BANDWIDTHS[chosen.card] / figure
        ratio = answer["seconds"] / counted
        ratios.append(ratio)
        print(f"| {row} | {counted * 1e6:.1f} | {answer['seconds'] * 1e6:.1f} | {ratio:.2f} |", flush=True)
    close = sum(0.5 <= ratio <= 2 for ratio in ratios)
    print(f"\n{close} of {len(ratios)} rows within a factor of 2; half of them err by at most "
          f"{statistics.median(abs(ratio - 1) for ratio in ratios):.0%}")
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
