#!/usr/bin/env python3
"""Compiles what berth asks TPUs for by their compiler, without a TPU: tests/pjrt/tpu.py [--keep FOLDER | --again FOLDER] [--seconds N] [--report FILE]

The examples, the command's demos and the training steps of tests/golden run on XLA's CPU client as a TPU, with the flag pjrt_dump; each module that they make is then
compiled ahead of time by libtpu for five chips, and by XLA's compiler for GPUs for an H200 that is described (h200.txtpb). Nothing runs on a TPU. Compiling ends after
--seconds, in an order that BERTH_TEST_DRAW draws, unless BERTH_TEST_LONG is set. All processes are confined (plugins.py). --keep: the modules stay there; --again: those are
compiled again. --report: a table in Markdown."""
import argparse
import collections
import os
import queue
import random
import re
import selectors
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import plugins
from plugins import ROOT

BUILD = ROOT / "build/release"
TPUS = {"v4": "v4:2x2x1", "v5e": "v5e:2x2", "v5p": "v5p:2x2x1", "v6e": "v6e:2x2", "tpu7x": "tpu7x:2x2x1"}
GPU, H200 = "NVIDIA H200 141GB HBM3e", "described H200"
# Without these libtpu asks the metadata server of a Google Cloud machine, and two processes of it exclude each other.
LIBTPU = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_LOG_DIR": "disabled"}
DEMOS = ["--epochs 2", "conv --epochs 1", "lstm --epochs 1", "vae --epochs 1", "gpt --epochs 1", "resnet18", "gpt2"]
PROGRAM_SECONDS, START_SECONDS, STUCK_SECONDS = 600, 300, 3600  # limits
MODULE_SECONDS = 300  # of the CPUs' time, for one module: others may use the machine
SHORT_SECONDS = 240  # of compiling, unless everything is compiled
WORKERS = 2


def skip(why):
    print(f"tpu: skipped: {why}")
    sys.exit(77)


# --- modules


def flags_of(example):
    settings = example.with_suffix(".env")
    lines = settings.read_text().splitlines() if settings.exists() else []
    return [line.partition("=")[2] for line in lines if line.startswith("BERTH_FLAGS=")]


def programs():
    """(words, flags) of what makes modules; simulated GPUs stay beside the TPU, which is the default device."""
    for source in sorted([*(ROOT / "examples").glob("*.c"), *(ROOT / "examples").glob("*/*.c")]):
        if source.parent.name not in ("models", "tasks"):
            yield [BUILD / "examples" / source.stem], flags_of(source)
    for demo in DEMOS:
        yield [BUILD / "berth", "demo", *demo.split()], []
    yield [BUILD / "golden", ROOT / "tests/golden/training.safetensors"], []


def collect(room, plugin):
    """The modules."""
    dump, made = room.home / "modules", 0
    more = {"LD_LIBRARY_PATH": str(room.path), "BERTH_DIGITS": str(room.copy(ROOT / "examples/data/digits.csv"))}
    room.copy(BUILD / "libberth.so.1")
    for words, flags in programs():
        words = [room.copy(word) if isinstance(word, Path) else word for word in words]
        flags = ",".join([*flags, f"pjrt_plugins=tpu:{plugin}", f"pjrt_dump={dump}", "gpu_notice=off"])
        name = " ".join([words[0].name, *map(str, words[1:])])
        try:
            room.run(words, {"BERTH_FLAGS": flags} | more, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL, timeout=PROGRAM_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{name}: ended after {PROGRAM_SECONDS} s", flush=True)
        before, made = made, len(list(dump.glob("*.mlir")))
        print(f"{name}: {made - before} new modules", flush=True)
    return sorted(dump.glob("*.mlir"))


# --- compilers


class Compiler:
    """A process of compile_ahead, started when needed and again when it has ended."""

    def __init__(self, room, words, more):
        self.room, self.words, self.more, self.process = room, words, more, None

    def cpu_seconds(self):
        """That it has used so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def line(self, seconds, cpu_seconds):
        """The next line of its output; None: it has ended, or the time is over."""
        until, cpu_until = time.monotonic() + seconds, self.cpu_seconds() + cpu_seconds
        while b"\n" not in self.buffer:
            if not self.selector.select(5):
                if time.monotonic() < until and self.cpu_seconds() < cpu_until:
                    continue
                return None
            read = os.read(self.process.stdout.fileno(), 65536)
            if not read:
                self.process.wait()
                return None
            self.buffer += read
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode(errors="replace")

    def start(self):
        self.process = self.room.start(self.words, self.more, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.selector, self.buffer = selectors.DefaultSelector(), b""
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        answer = self.line(START_SECONDS, START_SECONDS)
        if answer != "ready":
            self.end()
            raise RuntimeError(f"{Path(self.words[1]).name}: {answer or 'it does not start'}")

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def compile(self, number, module):
        """(milliseconds, None or why not)"""
        if not self.process:
            self.start()
        begun = time.monotonic()
        self.process.stdin.write(f"{number} {module}\n".encode())
        self.process.stdin.flush()
        answer = self.line(STUCK_SECONDS, MODULE_SECONDS)
        if answer is None:
            code = self.process.poll()
            self.end()
            return (time.monotonic() - begun) * 1e3, f"more than {MODULE_SECONDS} s of the CPUs" if code is None else f"the compiler ended with {code}"
        ms, word, *why = answer.split("\t")
        return float(ms), None if word == "ok" else "code " + ": ".join(why)


def compile_all(room, words, more, topologies, modules, seconds):
    """By (topology, module): milliseconds, and None or why not. Each module for one of the topologies, then each for another one, until the time is over."""
    work, results, broken, until = queue.SimpleQueue(), {}, [], time.monotonic() + (seconds or 1e9)
    for turn in range(len(topologies)):
        for i, module in enumerate(modules):
            number = (i + turn) % len(topologies)
            work.put((number, list(topologies)[number], module))

    def worker():
        compiler = Compiler(room, words, more)
        try:
            while time.monotonic() < until:
                number, topology, module = work.get_nowait()
                results[topology, module] = ms, why = compiler.compile(number, module)
                if why or len(results) % 100 == 0:
                    print(f"{len(results)} of {len(modules) * len(topologies)}: {module.name} for {topology}: {ms / 1e3:.1f} s{f', refused: {why[:200]}' if why else ''}",
                          flush=True)
        except queue.Empty:
            pass
        except RuntimeError as error:
            broken.append(error)
        finally:
            compiler.end()

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return results


# --- what came of it


def types_of(text):
    """What TPUs do not have, of the types of a module."""
    return [name for name, pattern in (("float64", r"[x<]f64>"), ("complex128", r"complex<f64>")) if re.search(pattern, text)]


def reason(module, why):
    types = types_of(module.read_text())
    return f"{' and '.join(types)}: {why}" if types else why


def refusals(results):
    """By reason, the names of the modules."""
    found = collections.defaultdict(dict)
    for (topology, module), (_, why) in results.items():
        if why:
            found[reason(module, re.sub(r"\s+", " ", why)[:160])].setdefault(module.name, []).append(topology)
    return found


def compiled(results):
    """By topology: how many modules are compiled for it."""
    return collections.Counter(topology for (topology, _), (_, why) in results.items() if not why)


def write_report(file, collected, seconds, rows):
    limit = f"as many as {seconds:.0f} s allowed, drawn" if seconds else "all"
    lines = ["# Compiled for TPUs, never run on one", "",
             f"{time.strftime('%Y-%m-%d')}; {collected} distinct modules, which the examples, the demos and the training steps make on XLA's CPU client as a TPU. Compiled for",
             f"each chip: {limit}; table by `tests/pjrt/tpu.py --report`. A module is compiled ahead of time, without a device: the compiler takes it, which says nothing about",
             "its results or its speed.", "",
             "| for | compiler | modules | compiled | refused | median | longest | in all |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, version, results in rows:
        results = {key: value for key, value in results.items() if key[0] == name}
        times = sorted(ms for ms, _ in results.values())
        refused = sum(why is not None for _, why in results.values())
        lines.append(f"| {name} | {version} | {len(times)} | {len(times) - refused} | {refused} | {times[len(times) // 2]:.0f} ms | {times[-1] / 1e3:.1f} s | "
                     f"{sum(times) / 1e3:.0f} s |")
    for why, names in refusals(rows[0][2]).items():
        lines += ["", f"Refused, {len(names)}: {why}"]
    file.write_text("\n".join(lines) + "\n")


def find_plugins():
    found = {}
    for name in plugins.PLUGINS:
        try:
            found[name] = plugins.find(name)
        except plugins.Missing as missing:
            if name != "jax-cuda13-pjrt":
                skip(missing)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--again", type=Path)
    parser.add_argument("--seconds", type=float, default=SHORT_SECONDS)
    parser.add_argument("--report", type=Path)
    chosen = parser.parse_args()
    found = find_plugins()
    command, words = plugins.confinement()
    if not command:
        skip("a process without a network cannot be made here (unshare)")
    with plugins.Room(command) as room:
        if chosen.again:
            modules = [room.copy(module) for module in sorted(chosen.again.glob("*.mlir"))]
        else:
            modules = collect(room, room.copy(found["xla-cpu-pjrt"]))
        if chosen.keep:
            shutil.copytree(room.home / "modules", chosen.keep, dirs_exist_ok=True)
        random.Random(int(os.environ.get("BERTH_TEST_DRAW", "0"))).shuffle(modules)
        seconds = None if os.environ.get("BERTH_TEST_LONG") else chosen.seconds
        helper = room.copy(BUILD / "tests/compile_ahead")
        results = compile_all(room, [helper, room.copy(found["libtpu"]), *TPUS.values()], LIBTPU, TPUS, modules, seconds)
        versions = dict.fromkeys(TPUS, plugins.version("libtpu"))
        if "jax-cuda13-pjrt" in found:
            target = room.copy(plugins.HERE / "h200.txtpb")
            options = [f"target_config=@{target}", "topology=1x1x1"]
            results |= compile_all(room, [helper, room.copy(found["jax-cuda13-pjrt"]), *options, GPU], {}, [H200], modules, seconds and seconds / 3)
            versions[H200] = plugins.version("jax-cuda13-pjrt")
        failures = refusals(results)
        if chosen.report:
            write_report(chosen.report, len(modules), seconds, [(name, version, results) for name, version in versions.items()])
    for why, names in failures.items():
        print(f"refused: {why}")
        for name, topologies in names.items():
            print(f"    {name} for {', '.join(topologies)}")
    counts, (longest, (chip, _)) = compiled(results), max((ms, key) for key, (ms, _) in results.items())
    done = len({module for (_, module), (_, why) in results.items() if not why})
    refused = len(set().union(*failures.values())) if failures else 0
    print(f"tpu: {done} of {len(modules)} modules compiled for {', '.join(f'{name} ({counts[name]})' for name in versions)}, never run on one: longest {longest / 1e3:.1f} s "
          f"({chip}), {words}; {refused} refused{':' if failures else ''} {'; '.join(why[:60] for why in failures)}".rstrip())
    return 1 if any(not why.startswith(("float64", "complex128")) for why in failures) else 0


if __name__ == "__main__":
    sys.exit(main())
