#!/usr/bin/env python3
"""Times berth and JAX in turn on the same PJRT plugin, XLA's CPU client from PyPI: bench/pjrt.py [--write FILE] [ROW...]

The plugin is the one of tests/pjrt/run.py. Who uploaded it is not verified, so both run without a network."""
import argparse
import datetime
import os
import statistics
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(HERE / "libraries"), str(ROOT / "tests/pjrt")]
import peers  # noqa: E402
import plugins  # noqa: E402
from report import machine, time_text  # noqa: E402
from sides import Berth, Failure, Worker, build_berth, folder_of_peers, install, refuse_unknown  # noqa: E402

STEPS = "step_small step_medium step_large conv_step vae_step gru_step gpt_step".split()
# Row: what berth's rate is at least, in JAX's.
LEAST = {"launch": 1, "launch_wait": 1, "matmul1024": 0.97, "matmul2048": 0.97} | {row: 0.95 for row in STEPS} | {"attention_grad": 0.95}
ROWS = [*LEAST, "upload", "download"]
FIRST_CALLS = "step_medium conv_step vae_step gru_step gpt_step".split()
MOST_COMPILE = 1.1  # times JAX's
SHRINK = 4  # copies are of 64 MiB
DEVICE = "tpu:0"  # the kind that the plugin is said to be of


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="Rows: " + " ".join(ROWS))
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all when none is named")
    parser.add_argument("--write", metavar="FILE", type=Path, help="writes the tables as Markdown too")
    parser.add_argument("--repetitions", type=int, default=5, help="of each side, in turn (%(default)s)")
    parser.add_argument("--first-calls", type=int, default=5, help="processes of each side for a first call, in turn (%(default)s)")
    parser.add_argument("--berth", metavar="COMMAND", type=Path, help="the command; else it is built")
    parser.add_argument("--inside", metavar="PLUGIN,PYTHON", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    refuse_unknown(parser, chosen.rows, ROWS)
    chosen.rows = chosen.rows or ROWS
    return chosen


def go_inside(chosen):
    """Installs what is needed, and begins again without a network."""
    plugin = plugins.find("xla-cpu-pjrt")
    python = install("jax", folder_of_peers(), "cpu")
    chosen.berth = chosen.berth or build_berth()
    command = ["unshare", *([] if os.getuid() == 0 else ["-r"]), "-n"]
    options = ["--inside", f"{plugin},{python}", "--berth", str(chosen.berth)]
    os.execvp(command[0], [*command, sys.executable, __file__, *sys.argv[1:], *options])


def start(chosen):
    """berth and JAX."""
    worker = Worker("jax", chosen.python, chosen.sides)
    worker.environment["BERTH_BENCH_PLUGIN"] = chosen.plugin
    worker.environment["XLA_FLAGS"] = "--xla_cpu_use_xnnpack=false"  # as berth's: the plugin's products by XNNPACK are wrong for donated arrays
    worker.start()
    return Berth(chosen.berth, chosen.sides), worker


def peer_of(row, worker):
    return "jax_jit" if row in worker.peers["jax_jit"] else "jax"


def measure(row, berth, worker, chosen, folder, problems):
    """Medians of berth and of JAX, and the middle of the ratios of pairs."""
    peer = peer_of(row, worker)
    able, wrong = peers.compare(row, berth, [(peer, worker)], folder)
    problems += wrong
    if not able:
        return None
    times, answers = peers.repeat(row, berth, able, chosen.sides)
    ours, theirs = [answer["seconds"] for answer in answers], times[peer]
    return statistics.median(ours), statistics.median(theirs), statistics.median(b / a for a, b in zip(ours, theirs))


def measure_first(rows, chosen, problems):
    """By row: seconds of a first call, less those of a later one; of berth, of JAX. Each time in new processes."""
    times = {row: ([], []) for row in rows}
    for turn in range(chosen.first_calls):
        print(f"first calls {turn + 1} of {chosen.first_calls}...", file=sys.stderr, flush=True)
        berth, worker = start(chosen)
        try:
            berth.run("launch", 0)  # the client and its threads are there
            worker.run("launch", "jax_jit", 0)
            for row, (ours, theirs) in times.items():
                both = berth.first(row), worker.first(row, peer_of(row, worker))
                for side, answer in zip((ours, theirs), both):
                    side.append(answer["first_s"] - answer["later_s"])
        except Failure as failure:
            problems.append(str(failure))
        finally:
            berth.close()
            worker.close()
    return {row: (*map(statistics.median, sides), statistics.median(b / a for a, b in zip(*sides))) for row, sides in times.items() if all(sides)}


def line_of(row, figures, good):
    ours, theirs, ratio = figures
    return f"| {row} | {time_text(ours)} | {time_text(theirs)} | {ratio:.2f} | {'' if good is None else 'yes' if good else '**no**'} |"


def tables(found, firsts):
    lines = ["| row | berth | JAX | ratio | at least | reached |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    for row, figures in found.items():
        least = LEAST.get(row)
        line = line_of(row, figures, None if least is None else figures[2] >= least)
        head, _, tail = line.rpartition(" | ")
        lines.append(f"{head} | {'' if least is None else least} | {tail}")
    if firsts:
        lines += ["", "First calls, less a later one:", "", "| row | berth | JAX | ratio | reached |", "| --- | ---: | ---: | ---: | --- |"]
        lines += [line_of(row, figures, figures[2] >= 1 / MOST_COMPILE) for row, figures in firsts.items()]
    return lines


def write(file, lines, worker, chosen, problems):
    about = (f"{datetime.date.today()}, {machine()}, {chosen.sides.threads} cores, other work on them (load {chosen.load:.0f}); JAX {worker.versions['JAX']} (jaxlib of the same version) and berth, both on the "
             f"client of xla-cpu-pjrt 0.0.1, without a network. Medians of {chosen.sides.repetitions} in turn, results compared; made by `bench/pjrt.py`. Ratio: the middle of the pairs' "
             "ratios, JAX's time divided by berth's, so above 1 berth is faster.")
    file.write_text("\n".join(["# Beside JAX on one PJRT plugin", "", about, "", *lines, *(f"\n{problem}" for problem in problems)]) + "\n")


def main():
    chosen = parse()
    if not chosen.inside:
        go_inside(chosen)
    chosen.plugin, chosen.python = chosen.inside.split(",")
    os.environ["BERTH_FLAGS"] = ",".join(filter(None, [os.environ.get("BERTH_FLAGS"), f"pjrt_plugins=tpu:{chosen.plugin}"]))
    threads = len(os.sched_getaffinity(0))
    chosen.sides = SimpleNamespace(device=DEVICE, peer_device="cpu", shrink=SHRINK, threads=threads, repetitions=chosen.repetitions, seconds=0)
    chosen.load = os.getloadavg()[0]
    found, firsts, problems = {}, {}, []
    berth, worker = start(chosen)
    with tempfile.TemporaryDirectory() as folder:
        for row in chosen.rows:
            print(f"{row}...", file=sys.stderr, flush=True)
            try:
                figures = measure(row, berth, worker, chosen, Path(folder), problems)
                if figures:
                    found[row] = figures
                    print(line_of(row, figures, None), file=sys.stderr, flush=True)
            except Failure as failure:
                problems.append(str(failure))
                if not berth.alive():
                    berth = Berth(chosen.berth, chosen.sides)
    berth.close()
    if chosen.first_calls:
        firsts = measure_first([row for row in FIRST_CALLS if row in chosen.rows], chosen, problems)
    lines = tables(found, firsts)
    print("\n".join(lines))
    if chosen.write:
        write(chosen.write, lines, worker, chosen, problems)
    worker.close()
    for problem in problems:
        print(f"bench/pjrt.py: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
