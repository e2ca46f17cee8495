#!/usr/bin/env python3
"""Times berth and other libraries in turn, in one run, and compares their results: bench/peers.py --help."""
import argparse
import itertools
import json
import os
import re
import statistics
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "libraries"))
from report import print_table, write_results  # noqa: E402
from sides import Before, Berth, Failure, Worker, build_berth, folder_of_peers, install, refuse_unknown  # noqa: E402

ROWS = ("elementwise elementwise_compiled linspace random100m random100m_mixed matmul1024 matmul2048 matmul4096 matmul_small thin_product fft fft_lines cholesky "
        "softmax layer_norm sum sum_axis0 sum_axis1 short_rows narrow_sums nbody transpose_add broadcast gather scatter_rows embedding_grad dependent_adds layer_norm_gradient softmax_gradient "
        "conv3x3 conv7x7s2 conv1x1 conv_depthwise conv_grad resnet18 resnet18_one attention attention_causal attention_grad kv_cache matmul_vmap softmax_vmap gather_vmap "
        "example_gradients example_gradients_by_hand hvp compile startup step_small step_medium step_large conv_step vae_step gpt_step gpt_step_bf16 gpt2_prompt gpt2_token gru_forward gru_step scan_steps "
        "while_steps sort4m sort_rows topk permutation normal").split()
SIDES = (1024, 2048, 4096, 8192, 16384)
DEVICE_ROWS = ([f"matmul_{kind}_{n}" for n in SIDES[:4] for kind in ("f32", "tf32", "fast_bf16", "bf16")] +
               [f"{kind}_{n}" for n in (512, 1024, 2048) for kind in ("cholesky", "solve", "inv", "qr", "eigh", "svd")] +
               "large_elementwise large_sum large_softmax large_layer_norm large_transpose_add large_gather upload download "
               "upload_pinned download_pinned inv_many launch launch_wait launch_100 launch_graph".split() + [f"matmul_{kind}_16384" for kind in ("f32", "tf32", "fast_bf16", "bf16")])
MOST = 25  # repetitions, unless more are asked for
MEMORY_RUNS = 5
PAUSE_SECONDS = 0.03  # threads that spin for more work come to rest
RAMP_SECONDS = 0.05  # of runs in a row that a device needs for its usual clocks
MOST_OF_BURST = 200


def parse():
    parser = argparse.ArgumentParser(description=__doc__, epilog="Rows: " + " ".join(ROWS) + ". Peers are installed once into "
                                     "$BERTH_BENCH_DIR, else berth-bench in $XDG_CACHE_HOME or ~/.cache.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="all when none is named")
    parser.add_argument("--json", action="store_true", help='a list of {"row", "berth_s", "peers": {name: seconds}, "ratio"}; of devices that is "rows" of an object')
    parser.add_argument("--write", metavar="FILE", type=Path, help="writes the table as Markdown too")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="where berth's rows run; peers run on CUDA where it is cuda "
                        "or a GPU, else on the CPU (%(default)s)")
    parser.add_argument("--shrink", type=int, default=1, help="makes large rows smaller, as in berth bench")
    parser.add_argument("--berth", metavar="COMMAND", type=Path, help="the command; else it is built")
    parser.add_argument("--against", metavar="COMMAND", type=Path, help="the command of another build, which is one more peer: berth_before; "
                        "alone, unless --libraries names others")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS", help="no row is begun later")
    parser.add_argument("--memory", action="store_true", help=f"also the most resident memory of a process that runs the row {MEMORY_RUNS} times, for each side")
    parser.add_argument("--libraries", help="jax,torch,tensorflow,numpy; on devices jax,torch,cublas")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="cores for each side (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="at least (%(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="repeats a row up to 25 times while it takes less (%(default)s)")
    chosen = parser.parse_args()
    chosen.peer_device = "cuda" if re.match(r"(?i)cuda|gpu", chosen.device) else "cpu"
    on_device = chosen.device != "cpu"
    chosen.libraries = chosen.libraries or ("" if chosen.against else "jax,torch,cublas" if chosen.peer_device == "cuda" else "jax,torch" if on_device else
                                            "jax,torch,tensorflow,numpy")
    refuse_unknown(parser, chosen.rows, ROWS + DEVICE_ROWS)
    chosen.rows = chosen.rows or (ROWS + DEVICE_ROWS if on_device else ROWS)
    return chosen


def peers_of(row, workers):
    """(name, worker) of each that has the row."""
    return [(peer, worker) for worker in workers for peer, rows in worker.peers.items() if row in rows]


def compare(row, berth, peers, folder):
    """Peers that could do it, and problems: those that could not, and results that differ. One repetition, not timed."""
    file, able, problems = folder / f"{row}.npy", [], []
    berth.run(row, 0, file)
    for name, worker in peers:
        try:
            answer = worker.run(row, name, 0, file)
        except Failure as failure:
            problems.append(str(failure))
            continue
        able.append((name, worker))
        if "worst" in answer and not answer["worst"] <= answer["allowed"]:
            problems.append(f"{row}: the result of {name} differs by {answer['worst']:.3g}, more than {answer['allowed']:.3g}")
    file.unlink()
    return able, problems


def run_once(run, chosen, repetition):
    """The answer to one run. A device's clocks are low after a pause: there it is the median of the runs of RAMP_SECONDS, after as long
    a time of runs that do not count. Each has a number of its own, for rows that do something new each time."""
    if chosen.device == "cpu":
        return run(repetition)
    numbers = itertools.count(repetition * MOST_OF_BURST)
    answers = []
    for _ in range(2):
        start, answers = time.monotonic(), []
        while len(answers) < MOST_OF_BURST // 2 and (not answers or time.monotonic() - start < RAMP_SECONDS):
            answers.append(run(next(numbers)))
    answers.sort(key=lambda answer: answer["seconds"])
    return answers[len(answers) // 2]


def repeat(row, berth, peers, chosen):
    """Seconds of each side, in turn, and berth's answers."""
    times, answers, start = {name: [] for name, _ in peers}, [], time.monotonic()
    while len(answers) < chosen.repetitions or (len(answers) < MOST and time.monotonic() - start < chosen.seconds):
        repetition = len(answers) + 1
        time.sleep(PAUSE_SECONDS)
        answers.append(run_once(partial(berth.run, row), chosen, repetition))
        for name, worker in peers:
            time.sleep(PAUSE_SECONDS)
            times[name].append(run_once(partial(worker.run, row, name), chosen, repetition)["seconds"])
    return times, answers


def measure(row, berth, workers, folder, chosen):
    """The row's figures and what is wrong with them."""
    peers, problems = compare(row, berth, peers_of(row, workers), folder)
    times, answers = repeat(row, berth, peers, chosen)
    ours = [answer["seconds"] for answer in answers]
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    median = statistics.median(ours)
    return {"row": row, "berth_s": median, "peers": medians, "ratio": min(medians.values()) / median if medians else None,
            "berth_least_s": min(ours), "peers_least_s": {name: min(seconds) for name, seconds in times.items()},
            "repetitions": len(ours), "kernels_compiled": sum(answer["kernels"] for answer in answers),
            "bytes": answers[0]["bytes"], "flops": answers[0]["flops"], "agrees": not any("differs by" in problem for problem in problems)}, problems


def measure_memory(row, chosen, command, workers):
    """(name, bytes before the row, the most after a few runs) of each side, each in a process of its own."""
    found, berth = [], Berth(command, chosen)
    before = berth.memory("VmRSS")
    for repetition in range(MEMORY_RUNS):
        berth.run(row, repetition)
    found.append(("berth", before, berth.memory("VmHWM")))
    berth.close()
    for name, worker in peers_of(row, workers):
        if not isinstance(worker, Worker):
            continue
        alone = Worker(worker.library, worker.python, chosen, worker.two_devices)
        alone.start()
        before = alone.memory("VmRSS")
        for repetition in range(MEMORY_RUNS):
            alone.run(row, name, repetition)
        found.append((name, before, alone.memory("VmHWM")))
        alone.close()
    return found


def start_workers(chosen, folder):
    """The libraries' processes, and what is wrong with those that cannot be started."""
    workers, problems, cores = [], [], sorted(os.sched_getaffinity(0))[:chosen.threads]
    for library in filter(None, chosen.libraries.split(",")):
        try:
            python = install(library, folder, chosen.peer_device)
            if set(chosen.rows) != {"random100m_mixed"}:
                workers.append(Worker(library, python, chosen))
            if library == "jax" and "random100m_mixed" in chosen.rows:
                workers.append(Worker(library, python, chosen, two_devices=True))
        except Failure as failure:
            problems.append(str(failure))
    if chosen.against:
        workers.append(Before(chosen))
    os.sched_setaffinity(0, cores)
    started = []
    for worker in workers:
        try:
            worker.start()
            started.append(worker)
        except Failure as failure:
            problems.append(str(failure))
    return started, problems


def measure_all(chosen, command, workers, folder, problems):
    """Each row's figures, and the bytes per second of a copy."""
    found, start = [], time.monotonic()
    berth = Berth(command, chosen)
    copy = berth.copy_rate()
    for row in chosen.rows:
        if time.monotonic() - start > chosen.limit:
            problems.append(f"{row}: not begun, no time left")
            continue
        print(f"{row}...", file=sys.stderr, flush=True)
        try:
            figures, wrong = measure(row, berth, workers, folder, chosen)
            if chosen.memory:
                figures["memory"] = measure_memory(row, chosen, command, workers)
            found.append(figures)
            problems += wrong
        except Failure as failure:
            problems.append(str(failure))
            berth = berth if berth.alive() else Berth(command, chosen)
    return found, copy


def main():
    chosen = parse()
    folder = folder_of_peers()
    command = chosen.berth or build_berth()
    workers, problems = start_workers(chosen, folder)
    versions = {name: version for worker in workers for name, version in worker.versions.items()}
    found, copy = measure_all(chosen, command, workers, folder, problems)
    if chosen.json:
        print(json.dumps({"copy_bytes_per_s": copy, "versions": versions, "rows": found, "problems": problems}
                         if chosen.device != "cpu" else found, indent=2))
    else:
        print_table(found, copy, chosen.device)
    if chosen.write and found:
        write_results(chosen.write, found, copy, versions, chosen, problems)
    for problem in problems:
        print(f"bench/peers.py: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
