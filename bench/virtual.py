#!/usr/bin/env python3
"""Times of simulated cards' models beside those made of the emulated GPU's counts: bench/virtual.py --help.

Two models, no measurement. The table bench/results/emulated.md holds what a model makes of sectors and instructions that the emulated GPU
counted when it ran the kernels. A simulated card with a model (`devices=sim:h200*1`) runs no kernel of a GPU: its time comes from the
operands and operations alone (src/drivers/sim/sim_estimate.h). Each row of the table is run once on such a card; the ratio of the times
tells where the second model departs from what was counted. With --measured both are of a real card: what the model is worth."""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHRINK = 4  # that the table was made with
BANDWIDTHS = {"h200": 4800e9, "a100": 2039e9, "rtx4090": 1008e9}  # of bench/emulated.py


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all of the table when none is named")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--card", choices=BANDWIDTHS, default="h200")
    parser.add_argument("--table", type=Path, default=ROOT / "bench/results/emulated.md")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="instead: beside the rows of a figures.json of bench/gpu.sh, in their sizes, without data")
    parser.add_argument("--figures", default="", help="of the card, other than its own: bandwidth=4100/f32=51")
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
    return {row["row"]: ("seconds", row["median_s"]) for row in rows if row["row"] not in ("startup", "compile", "random100m_mixed")}


def main():
    chosen = parse()
    table = measured_seconds(chosen.measured) if chosen.measured else emulated_seconds(chosen.table, chosen.card)
    card = chosen.card + ("{" + chosen.figures + "}" if chosen.figures else "")
    flags = f"devices=sim:{card}*1," + ("sim_data=off" if chosen.measured else "matmul_precision=highest")
    environment = dict(os.environ, BERTH_FLAGS=flags)
    command = [chosen.build / "berth", "bench", "--interactive", "--device", "gpu:0"]
    command += [] if chosen.measured else ["--shrink", str(SHRINK)]
    ratios = []
    print(f"| row | {'measured' if chosen.measured else 'by counts'} us | by the model us | ratio |\n| --- | ---: | ---: | ---: |")
    for row in chosen.rows or table:
        done = subprocess.run(command, env=environment, input=f"{row} 0\n{row} 1\n", stdout=subprocess.PIPE, text=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode or len(answers) < 2 or "error" in answers[-1]:
            print(f"{row}: left out: {done.stdout.strip()}", file=sys.stderr)
            continue
        what, figure = table[row]
        counted = figure if what == "seconds" else answers[-1]["bytes"] / BANDWIDTHS[chosen.card] / figure
        ratio = answers[-1]["seconds"] / counted
        ratios.append(ratio)
        print(f"| {row} | {counted * 1e6:.1f} | {answers[-1]['seconds'] * 1e6:.1f} | {ratio:.2f} |", flush=True)
    close = sum(0.5 <= ratio <= 2 for ratio in ratios)
    print(f"\n{close} of {len(ratios)} rows within a factor of 2; half of them err by at most "
          f"{statistics.median(abs(ratio - 1) for ratio in ratios):.0%}")
    return 0 if ratios else 1


if __name__ == "__main__":
    sys.exit(main())
