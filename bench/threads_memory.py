#!/usr/bin/env python3
"""What threads get done side by side, and how much memory loops take that run ahead: bench/threads_memory.py --help.

Runs bench/threads and bench/memory, programs of the public header, and prints two tables. Threads: each with threads=1, that is one core each. Memory: the most bytes that
the device's arrays take at a time and, on the CPU, the process."""
import argparse
import datetime
import json
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("small", "product", "call", "step")
LOOPS = (("calls", "60 calls that each make 128 MB, which nobody reads"),
         ("state", "60 steps that set variables of 120 MB, the loss not read"),
         ("state_read", "the same, the loss read"),
         ("carried", "the same state as arguments that are donated"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 8], metavar="N")
    parser.add_argument("--devices", nargs="+", default=["cpu", "sim:h200*1"], metavar="NAME", help="cpu, or a simulated card (%(default)s)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="writes the tables there too")
    return parser.parse_args()


def run(command, flags):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "BERTH_FLAGS": flags})
    return json.loads(done.stdout)


def thread_rows(chosen):
    for kind in KINDS:
        for count in chosen.threads:
            found = run([chosen.build / "bench/threads", kind, count], "threads=1")
            yield (f"| {kind} | {count} | {found['one_per_s']:,.0f} | {found['all_per_s']:,.0f} | {found['times']:.2f} | "
                   f"{found['times_lower']:.2f} to {found['times_upper']:.2f} |")


def memory_rows(chosen):
    for kind, what in LOOPS:
        for device in chosen.devices:
            simulated = device.startswith("sim:")
            found = run([chosen.build / "bench/memory", kind, "gpu:0" if simulated else device], f"devices={device}" if simulated else "")
            process = f"{found['process_bytes'] / 1e6:,.0f} MB" if device == "cpu" else ""
            yield f"| {kind} | {what} | {device} | {found['arrays_bytes'] / 1e6:,.0f} MB | {process} |"


def main():
    chosen = parse()
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    head = (f"{datetime.date.today()}, {cpu}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start; made by "
            "`bench/threads_memory.py`.")
    lines = ["# Threads and memory", "", head, "",
             "Steps per second of one thread and of several, medians of 15 pairs in turn, and how many times as much several do (half of the pairs between the last two figures).", "",
             "| kind | threads | one | all | times | |", "| --- | ---: | ---: | ---: | ---: | --- |", *thread_rows(chosen), "",
             "The most memory of loops that run ahead of the device.", "",
             "| kind | | device | arrays | process |", "| --- | --- | --- | ---: | ---: |", *memory_rows(chosen)]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if chosen.write:
        chosen.write.write_text(text)


if __name__ == "__main__":
    main()
