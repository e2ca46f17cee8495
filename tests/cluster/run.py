#!/usr/bin/env python3
"""Runs the engine ray on Ray clusters of this machine: two nodes, whose processes are this script's own.
    tests/cluster/run.py [WORD...]    all, or what has a WORD in its name

Ray is installed once, where bench/peers.py has its libraries, or is that of BERTH_PYTHON. Skips (77) where it cannot be had."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "bench/libraries")]
from raylets import ENVIRONMENT, Cluster, Failed, free_port  # noqa: E402
from sides import Failure, folder_of_peers, install  # noqa: E402

BUILD = ROOT / "build/release"
PROGRAM = BUILD / "tests/cluster_test"
SECONDS = 300  # of a program
LISTS = Path(__file__).parent / "honoured.txt"


@dataclass
class Result:
    name: str
    good: bool
    text: str = ""


def environment(python, address, **more):
    flags = f"task_engine=ray,task_address={address}"
    return os.environ | ENVIRONMENT | {"BERTH_PYTHON": str(python), "BERTH_FLAGS": flags, "BERTH_TEST_FLAGS": flags} | more


def run(name, command, settings, limit=SECONDS):
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(command, env=settings, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=limit)
        except subprocess.TimeoutExpired as late:
            return Result(name, False, (late.stdout or b"").decode(errors="replace") + f"\nnot done after {limit} s")
    return Result(name, done.returncode == 0, done.stdout)


class Program:
    """The program of the cluster's tests, which says "ready" when something is to happen to it."""

    def __init__(self, mode, settings):
        self.process = subprocess.Popen([PROGRAM, mode], env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                        stdin=subprocess.DEVNULL)
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if line.strip() == "ready":
                break

    def bridge(self):
        """The process of the bridge: the one that names this program as its parent."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 3 and words[1].endswith(b"bridge.py") and words[3] == str(self.process.pid).encode():
                return int(folder.name)
        return 0

    def end(self, name, limit=180):
        try:
            rest, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rest = f"not done after {limit} s"
        return Result(name, self.process.returncode == 0, "".join(self.lines) + rest)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends_soon(pid, seconds=20):
    until = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_alive(pid)


def check_program_killed(python, cluster):
    program = Program("is_killed", environment(python, cluster.address))
    bridge = program.bridge()
    program.process.kill()
    program.process.wait()
    gone = bool(bridge) and ends_soon(bridge)
    return Result("a program that is killed leaves no bridge", gone, f"bridge {bridge} " + ("ended" if gone else "lives, or was not found"))


def check_bridge_killed(python, cluster):
    program = Program("is_killed", environment(python, cluster.address))
    bridge = program.bridge()
    if bridge:
        os.kill(bridge, signal.SIGKILL)
    return program.end("a bridge that is killed is an error")


def check_node_dies(python, cluster):
    program = Program("node_dies", environment(python, cluster.address))
    cluster.nodes[1].kill()
    result = program.end("a node is killed in mid-task")
    return result


def check_command(python):
    """berth cluster up, status and down, and a program of ours between them."""
    with tempfile.TemporaryDirectory() as folder:
        settings = os.environ | {"BERTH_PYTHON": str(python), "XDG_RUNTIME_DIR": folder, "BERTH_FLAGS": ""}
        said = []

        def berth(*words):
            done = subprocess.run([BUILD / "berth", "cluster", *words], env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=SECONDS)
            said.append(done.stdout)
            return done.returncode == 0

        good = berth("up", "--nodes", "2", "--cpus", "2", "--gpus", "2", "--port", str(free_port()))
        if good:
            address = json.loads((Path(folder) / "berth-cluster/cluster.json").read_text())["address"]
            ran = run("", ["bash", ROOT / "tests/run_example.sh", BUILD / "examples/square_tasks", ROOT / "examples/tasks/square_tasks.expected"],
                      environment(python, address))
            said.append(ran.text)
            good = ran.good and berth("status")
        good = berth("down") and good and not os.listdir(folder)
        return Result("berth cluster up, status, down", good, "".join(said))


def two_nodes(python):
    cluster = Cluster(python, cpus=(4,), gpus=((0, 1, 2, 3),))
    cluster.add(2, (6, 7), ['--resources={"license": 2}'])
    return cluster


def listed():
    """(kind, name, what follows) of each line of the list."""
    for line in LISTS.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            kind, name, *rest = line.split(None, 2)
            yield kind, name, rest[0] if rest else ""


def check_suite(python, cluster, words):
    """Tests and examples of tasks that do not need numbers of resources of their own, on the cluster."""
    for kind, name, only in listed():
        settings = environment(python, "local" if kind.endswith("-alone") else cluster.address)
        if not chosen(f"{name} {only}", words):
            continue
        if kind.startswith("test"):
            yield run(f"{name} {only}", [BUILD / f"tests/tests.{name}"], settings | {"BERTH_TEST_ONLY": only})
        elif kind.startswith("example"):
            text = ROOT / f"examples/tasks/{name}.expected"
            yield run(f"example {name}", ["bash", ROOT / "tests/run_example.sh", BUILD / f"examples/{name.split('.')[0]}", text], settings)


def chosen(name, words):
    return not words or any(word in name for word in words)


def all_checks(python, words):
    if chosen("berth cluster", words):
        yield check_command(python)
    with two_nodes(python) as cluster:
        if chosen("cluster_test", words):
            yield run("cluster_test: two nodes", [PROGRAM], environment(python, cluster.address))
        yield from check_suite(python, cluster, words)
        for name, check in (("program_killed", check_program_killed), ("bridge_killed", check_bridge_killed), ("node_dies", check_node_dies)):
            if chosen(name, words):
                yield check(python, cluster)


def python_with_ray():
    if os.environ.get("BERTH_PYTHON"):
        return os.environ["BERTH_PYTHON"]
    try:
        return install("ray", folder_of_peers(), "cpu")
    except Failure as failure:
        print(f"cluster: skipped: {failure}")
        sys.exit(77)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the clusters, too
    python, results = python_with_ray(), []
    try:
        for result in all_checks(python, sys.argv[1:]):
            results.append(result)
            print(f"{'passed' if result.good else 'FAILED'}: {result.name}", flush=True)
            if not result.good:
                print(re.sub(r"(?m)^", "    ", result.text[-6000:]), flush=True)
    except Failed as failed:
        print(f"cluster: skipped: {failed}")
        return 77
    left_out = sum(kind == "not" for kind, _, _ in listed())
    bad = sum(not result.good for result in results)
    print(f"cluster: {len(results) - bad} passed, {bad} failed on two nodes of Ray; {left_out} tests of tasks left out ({LISTS.name} says why)")
    return 1 if bad or not results else 0


if __name__ == "__main__":
    sys.exit(main())
