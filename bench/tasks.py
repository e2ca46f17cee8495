#!/usr/bin/env python3
"""Times tasks and actors of berth and of Ray in turn, in one run, and compares: bench/tasks.py --help."""
import argparse
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "libraries"))
from report import print_table, write_results  # noqa: E402
from sides import ROOT, Failure, Side, Worker, build_berth, descendants, folder_of_peers, install, refuse_unknown  # noqa: E402

FRESH_ROWS = ["first_task", "idle_memory"]  # each time in a new process
SHARED_ROWS = "task_round_trip task_batch first_actor actor_round_trip actor_batch put_1kb put_100mb ref_100mb".split()
OWN_ROWS = ("actor_batch_4_threads queue_10000 queue_1000000 actors_1000 beside_blocked_50 beside_blocked_2000 beside_actors_1000 "
            "beside_waited_10000").split()  # berth's alone
ROWS = FRESH_ROWS + SHARED_ROWS + OWN_ROWS
WARM_UPS = 2
PAUSE_SECONDS = 0.05
IDLE_SECONDS = 3  # after the first task, until memory is counted
MOST_IDLE_BYTES = 20_000_000
PARTS = ("submit_s", "drain_s", "release_s")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, epilog="Rows: " + " ".join(ROWS) + ". Ray is installed once into "
                                     "$BERTH_BENCH_DIR, else berth-bench in $XDG_CACHE_HOME or ~/.cache.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all when none is named")
    parser.add_argument("--json", action="store_true", help='a list of {"row", "berth_s", "peers": {name: seconds}, "ratio"}; idle_memory: bytes')
    parser.add_argument("--write", metavar="FILE", type=Path, help="writes the table as Markdown too")
    parser.add_argument("--alone", action="store_true", help="without Ray")
    parser.add_argument("--shrink", type=int, default=1, help="divides counts and sizes by that")
    parser.add_argument("--repetitions", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local",
                        help="of berth; ray: what berth costs over Ray's own Python calls, each on a Ray of its own (%(default)s)")
    chosen = parser.parse_args()
    refuse_unknown(parser, chosen.rows, ROWS)
    on_ray = chosen.engine == "ray"
    if on_ray and chosen.alone:
        parser.error("--engine ray needs Ray")
    chosen.rows = chosen.rows or (["first_task", *SHARED_ROWS] if on_ray else ROWS)
    chosen.device = chosen.peer_device = "cpu"
    chosen.threads = len(os.sched_getaffinity(0))
    return chosen


class Berth(Side):
    def __init__(self, chosen, python):
        on_ray = {"BERTH_FLAGS": "task_engine=ray,task_address=local", "BERTH_PYTHON": str(python), "RAY_AUTH_MODE": "disabled"}
        super().__init__("berth", [ROOT / "build/release/bench/tasks", str(chosen.shrink)], on_ray if chosen.engine == "ray" else {})

    def run(self, row):
        answer = self.ask(row)
        if "error" in answer:
            raise Failure(f"{row}: berth: {answer['error']}")
        return answer


class Sides:
    """Both, with processes of their own."""

    def __init__(self, chosen, python):
        self.chosen, self.berth, self.ray, self.python = chosen, None, None, python

    def __enter__(self):
        self.berth = Berth(self.chosen, self.python)
        if self.python:
            self.ray = Worker("ray", self.python, self.chosen)
            self.ray.start()
        return self

    def __exit__(self, *_):
        for side in filter(None, (self.berth, self.ray)):
            side.close()

    def pairs(self, row):
        """(name, process, its run of the row) of each that has it."""
        yield "berth", self.berth, lambda repetition: self.berth.run(row)
        if self.ray and row in self.ray.peers["ray"]:
            yield "ray", self.ray, lambda repetition: self.ray.run(row, "ray", repetition)


def figures_of(row, answers):
    """As bench/peers.py tells them; `answers`: of each side by its name."""
    times = {name: [answer["seconds"] for answer in list_of_one] for name, list_of_one in answers.items()}
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    ours, first = medians.pop("berth"), answers["berth"][0]
    figures = {"row": row, "berth_s": ours, "peers": medians, "ratio": min(medians.values()) / ours if medians else None,
               "berth_least_s": min(times["berth"]), "peers_least_s": {name: min(times[name]) for name in medians},
               "repetitions": len(times["berth"]), "calls": first["calls"], "bytes": first["bytes"], "flops": 0, "agrees": True}
    if any(first[part] for part in PARTS):
        figures |= {part: statistics.median(answer[part] for answer in answers["berth"]) for part in PARTS}
    return figures


def measure(row, sides, chosen):
    pairs, answers = list(sides.pairs(row)), {}
    for _ in range(WARM_UPS):
        sides.berth.run(row)
    for repetition in range(1, chosen.repetitions + 1):
        for name, _, run in pairs:
            time.sleep(PAUSE_SECONDS)
            answers.setdefault(name, []).append(run(repetition))
    return figures_of(row, answers)


def proportional_bytes(pid):
    """Of the memory of a process, with its part of what it shares; 0: it is gone."""
    try:
        return int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) << 10
    except OSError:
        return 0


def idle_bytes(side, run, answers):
    """What a process and all that it started hold more once a first task has run."""
    time.sleep(PAUSE_SECONDS)
    before = proportional_bytes(side.process.pid)
    answers.append(run(1))
    time.sleep(IDLE_SECONDS)
    pids = [side.process.pid, *(pid for pid, _ in descendants(side.process.pid))]
    return sum(map(proportional_bytes, pids)) - before


def measure_fresh(chosen, python):
    """The rows of FRESH_ROWS."""
    answers, memory = {}, {}
    for _ in range(chosen.repetitions):
        with Sides(chosen, python) as sides:
            for name, side, run in sides.pairs("first_task"):
                memory.setdefault(name, []).append(idle_bytes(side, run, answers.setdefault(name, [])))
                side.close()
    medians = {name: statistics.median(values) for name, values in memory.items()}
    ours = medians.pop("berth")
    rows = [figures_of("first_task", answers),
            {"row": "idle_memory", "berth_bytes": ours, "peers_bytes": medians, "ratio": min(medians.values()) / ours if medians else None}]
    return [figures for figures in rows if figures["row"] in chosen.rows]


def measure_all(chosen, python, problems):
    """Each row's figures, the bytes per second of a copy, versions."""
    found = []
    if set(FRESH_ROWS) & set(chosen.rows):
        print("first_task, idle_memory...", file=sys.stderr, flush=True)
        try:
            found += measure_fresh(chosen, python)
        except Failure as failure:
            problems.append(str(failure))
    with Sides(chosen, python) as sides:
        copies = [sides.berth.run("copy") for _ in range(chosen.repetitions)]
        copy = statistics.median(answer["bytes"] / answer["seconds"] for answer in copies)
        for row in chosen.rows:
            if row in FRESH_ROWS:
                continue
            print(f"{row}...", file=sys.stderr, flush=True)
            try:
                found.append(measure(row, sides, chosen))
            except Failure as failure:
                problems.append(str(failure))
                if not sides.berth.alive():
                    sides.berth = Berth(chosen, python)
        return found, copy, sides.ray.versions if sides.ray else {}


def rest_of(found, load):
    """What the table has no column for, line by line."""
    lines = []
    for figures in found:
        if "berth_bytes" in figures:
            peers = "".join(f"; {name} {count / 1e6:.1f} MB" for name, count in figures["peers_bytes"].items())
            lines.append(f"{figures['row']}: berth {figures['berth_bytes'] / 1e6:.1f} MB ({MOST_IDLE_BYTES / 1e6:.0f} MB: "
                         f"{'yes' if figures['berth_bytes'] <= MOST_IDLE_BYTES else 'no'}){peers}")
        if "submit_s" in figures:
            rates = ", ".join(f"{part[:-2]} {figures['calls'] / figures[part]:,.0f}/s" for part in PARTS)
            lines.append(f"{figures['row']}: {rates}")
    return [*lines, f"load of the machine before: {load:.1f}"]


def main():
    chosen, problems = parse(), []
    build_berth()
    python = None
    if not chosen.alone:
        try:
            python = install("ray", folder_of_peers(), "cpu")
        except Failure as failure:
            problems.append(str(failure))
    load = os.getloadavg()[0]
    found, copy, versions = measure_all(chosen, python, problems)
    timed = [figures for figures in found if "berth_s" in figures]
    if chosen.json:
        print(json.dumps(found, indent=2))
    else:
        print_table(timed, copy, chosen.device)
        print("\n".join(rest_of(found, load)))
    if chosen.write and timed:
        write_results(chosen.write, timed, copy, versions, chosen, problems)
        with open(chosen.write, "a") as file:
            file.write("\n" + "".join(f"- {line}\n" for line in rest_of(found, load)))
    for problem in problems:
        print(f"bench/tasks.py: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
