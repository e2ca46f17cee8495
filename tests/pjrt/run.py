#!/usr/bin/env python3
"""Runs berth on real PJRT plugins, whose devices are taken for TPUs or other accelerators: XLA's CPU client from PyPI, pinned by its hash (xla-cpu-pjrt), and, as a second source,
a shim over the XLA of another package (tensorflow-cpu, build_shim.py).
    tests/pjrt/run.py [WORD...]             all tests on the first that can be had, some on the second too; or those whose name contains a WORD; with BERTH_TEST_LONG=1 many
                                            more cases of each
    tests/pjrt/run.py --golden ARGUMENTS    compares with reference files, as build/release/golden does, on the first
    --plugin NAME                           on that one alone: xla-cpu-pjrt, tensorflow-cpu or a library's path; so does the environment's BERTH_PJRT_PLUGIN

Everything runs confined (plugins.py), since who uploaded the first is not verified."""
import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import build_shim
import plugins
from plugins import HERE, ROOT

BUILD = ROOT / "build/release"
LONG = bool(os.environ.get("BERTH_TEST_LONG"))
DRAW = int(os.environ.get("BERTH_TEST_DRAW") or 0)


def skip(why):
    print(f"pjrt: skipped: {why}")
    sys.exit(77)


class Place(plugins.Room):
    """With the plugin and the library."""

    def __init__(self, name, plugin, confined):
        super().__init__(confined)
        self.name, self.original = name, plugin

    def __enter__(self):
        super().__enter__()
        self.plugin = self.copy(self.original)
        for library in build_shim.companions(self.original):
            self.link(library)
        self.copy(BUILD / "libberth.so.1")
        return self

    def copy(self, path):
        there = self.path / Path(path).name
        return there if there.exists() else super().copy(Path(path))

    def environment(self, more):
        return super().environment({"LANG": "C.UTF-8", "TF_ENABLE_ONEDNN_OPTS": "0", "LD_LIBRARY_PATH": str(self.path), "BERTH_PJRT_PLUGIN": str(self.plugin),
                                    "BERTH_DIGITS": str(self.copy(ROOT / "examples/data/digits.csv")), "BERTH_TEST_DRAW": str(DRAW)} | more)

    def flags(self, kind):
        """PoCL, where it is installed, is no accelerator beside the plugin's."""
        return f"pjrt_plugins={kind}:{self.plugin},default_device={kind}:0" + (",opencl_cpu=gpu" if kind == "acc" else "")

    def output_of(self, command, settings, limit=None):
        """Its exit status and what it printed."""
        with self.start(command, settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            try:
                text, _ = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                process.kill()
                text = process.communicate()[0] + f"\nended after {limit} s\n"
        return process.returncode, text


# ---- the tests


@dataclass
class Test:
    name: str
    command: list
    settings: dict = field(default_factory=dict)
    counts: str = ""  # of the lines that it prints: how many cases, a group
    what: str = ""  # the cases
    expected: str = ""  # it must print this
    known: tuple = ()  # cases that may fail


# What XLA of that version computes otherwise: by plugin the reference cases, which are counted as neither passed nor failed.
# sum/18 is 65536 times 0.1: XLA gives this sum to YNNPACK, which adds it up in the 16 lanes of a vector one after another (6553.853); without that library
# (XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type=), and in xla-cpu-pjrt, it is a tree (6553.595). Plugins of an older XLA refuse that option, so berth does not set it.
KNOWN = {build_shim.NAME: ("sum/18",)}


def golden(place, name, flags, pattern, *options):
    files = [place.copy(path) for path in sorted((ROOT / "tests/golden").glob(pattern))]
    return Test(name, [place.copy(BUILD / "golden"), *options, *files], {"BERTH_FLAGS": flags}, r"(\d+) passed, \d+ failed", "reference cases", known=KNOWN.get(place.name, ()))


def conformance(place, kind, *flags):
    settings = {"BERTH_TEST_DEVICES": kind, "BERTH_TEST_ONE_IN": "10" if LONG else "100", "BERTH_TEST_FLAGS": ",".join(flags)}
    return Test(" ".join([f"conformance as {kind}", *flags]), [place.copy(BUILD / "tests/tests.conformance_test")], settings, rf"{kind}: (\d+) cases passed, 0 failed",
                "conformance cases")


def random_programs(place, *options, flags=""):
    first = 1 + DRAW % 500
    last = first + (9 if LONG else 0)
    name = " ".join(["random programs", *options, *flags.split(",")]).strip()
    return Test(name, [place.copy(BUILD / "tests/random_programs"), "--tpus", *options, "--seeds", f"{first}..{last}"],
                {"BERTH_FLAGS": f"{flags},{place.flags('tpu')}".strip(",")},
                r"(\d+) programs, .* 0 differences", "random programs")


def example(place, source):
    """On TPUs where it names GPUs; its expected text says so too, unless there is one here."""
    stem, own = source.stem, HERE / f"{source.stem}.expected"
    folder = place.path / stem
    folder.mkdir()
    os.chmod(folder, 0o755)
    expected = own.read_text() if own.exists() else source.with_suffix(".expected").read_text().replace("GPU", "TPU").replace("GpuDevice", "TpuDevice")
    (folder / f"{stem}.expected").write_text(expected)
    code = folder / source.name
    code.write_text(re.sub(r'"gpu:|"GPU:|BT_GPU', lambda found: found[0].replace("gpu", "tpu").replace("GPU", "TPU"), source.read_text()))
    compiler = [os.environ.get("CC") or "cc", "-std=c17", "-O1", "-Wall", "-Werror", f"-I{ROOT / 'include'}", f"-L{BUILD}"]
    subprocess.run([*compiler, source.name, "-o", stem, "-lberth", "-lm"], cwd=folder, check=True)
    return Test(f"example {stem}", ["bash", place.copy(ROOT / "tests/run_example.sh"), folder / stem, folder / f"{stem}.expected"],
                {"BERTH_TEST_FLAGS": place.flags("tpu")})


def list_tests(place):
    tpu, acc, berth = place.flags("tpu"), place.flags("acc"), place.copy(BUILD / "berth")
    tests = [Test("the driver", [place.copy(BUILD / "tests/drivers.pjrt.real_test")]),
             *([Test("late errors", [place.copy(BUILD / "tests/drivers.pjrt.late_test")])] if place.name == build_shim.NAME else []),
             golden(place, "reference files", tpu, "*.safetensors", f"--every={1 if LONG else 6}"),
             golden(place, "a reference file as acc", acc, "arrays.safetensors", f"--every={1 if LONG else 6}"),
             golden(place, "training on four", tpu, "training.safetensors", "--mirrored"),
             Test("digits on four", [berth, "demo", "--save", place.home / "digits.safetensors"], {"BERTH_FLAGS": tpu}, expected="TPU:3 "),
             Test("a small GPT", [berth, "demo", "gpt", "--epochs", "1", "--save", place.home / "gpt.safetensors"], {"BERTH_FLAGS": tpu}),
             conformance(place, "tpu"), conformance(place, "acc"),
             Test("sizes that vary", [place.copy(BUILD / "tests/tests.pad_sizes_test")]), conformance(place, "tpu", "pad_sizes=on"),
             random_programs(place, flags="pad_sizes=on"), random_programs(place), *([random_programs(place, "--loops")] if LONG else [])]
    return tests + [example(place, source) for source in sorted((ROOT / "examples/jax").glob("*.c"))]


SECOND = ["the driver", "late errors", "reference files", "training on four", "digits on four", "conformance as tpu", "conformance as acc", "example donated_state"]


def known_failures(test, status, text):
    """The cases that failed, if they are all known and nothing else is wrong."""
    failed = re.findall(r"^FAILED (\S+): ", text, re.MULTILINE)
    told = re.findall(r"passed, (\d+) failed", text)
    return failed if status == 1 and failed and set(failed) <= set(test.known) and told == [str(len(failed))] else []


def passes(place, test, counts):
    started = time.monotonic()
    status, text = place.output_of(test.command, test.settings, 6 * 3600 if LONG else 900)
    found = re.findall(test.counts, text) if test.counts else []
    known = known_failures(test, status, text)
    passed = bool((status == 0 or known) and test.expected in text and (found or not test.counts))
    for count in found:
        counts[test.what] = counts.get(test.what, 0) + int(count)
    print(f"{test.name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - started:.0f} s{''.join(f', {count} {test.what}' for count in found)}"
          f"{''.join(f', {case} differs as is known' for case in known)}", flush=True)
    if not passed:
        print(text[-20000:], f"exit status {status}", sep="\n", flush=True)
    return passed


def run_tests(place, tests, counts):
    """The names of those that failed."""
    print(f"on {place.name}:", flush=True)
    return [f"{test.name} on {place.name}" for test in tests if not passes(place, test, counts)]


def choose(place, words, only):
    return [test for test in list_tests(place) if (not only or test.name in only) and (not words or any(word in test.name for word in words))]


def run_on_all(found, missing, words, confined, how):
    counts, parts, failed = {}, [], []
    for number, (name, library) in enumerate(found.items()):
        with Place(name, library, confined) as place:
            tests = choose(place, words, None if number == 0 or LONG else SECOND)
            bad = run_tests(place, tests, counts) if tests else []
        if tests:
            parts.append(f"{len(tests) - len(bad)} of {len(tests)} tests passed on {name}")
        failed += bad
    if not parts:
        sys.exit(f"tests/pjrt/run.py: no test's name contains {' or '.join(words)}")
    print(f"pjrt: {', '.join(parts)}, {how}" + "".join(f", {n} {what}" for what, n in counts.items()) + "".join(f"; {name} failed" for name in failed) +
          "".join(f"; skipped: {why}" for why in missing))
    return 1 if failed else 0


def run_golden(place, arguments):
    options = [argument for argument in arguments if argument.startswith("--")]
    files = [place.copy(argument) for argument in arguments if not argument.startswith("--")]
    status, text = place.output_of([place.copy(BUILD / "golden"), *options, *files], {"BERTH_FLAGS": place.flags("tpu")})
    print(text, end="")
    return status


# ---- plugins


SOURCES = {"xla-cpu-pjrt": lambda: plugins.find("xla-cpu-pjrt"), build_shim.NAME: build_shim.find}


def find_plugins(wanted, most):
    """By name their libraries, in order, and why others are missing."""
    found, missing = {}, []
    if wanted and wanted not in SOURCES:
        if not Path(wanted).is_file():
            sys.exit(f"tests/pjrt/run.py: there is no plugin {wanted}: it is {', '.join(SOURCES)} or a library's path")
        return {Path(wanted).name: Path(wanted)}, missing
    for name in [wanted] if wanted else SOURCES:
        try:
            found[name] = SOURCES[name]()
        except plugins.Missing as why:
            missing.append(str(why))
        if len(found) == most:
            break
    return found, missing


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", metavar="NAME", default=os.environ.pop("BERTH_PJRT_PLUGIN", None))
    parser.add_argument("--golden", metavar="ARGUMENTS", nargs=argparse.REMAINDER)
    parser.add_argument("words", metavar="WORD", nargs="*")
    return parser.parse_args()


def main():
    chosen = parse()
    found, missing = find_plugins(chosen.plugin, len(SOURCES) if chosen.golden is None else 1)
    if not found:
        skip("; ".join(missing))
    confined, how = plugins.confinement()
    if not confined:
        skip("a process without a network cannot be made here (unshare)")
    if chosen.golden is None:
        return run_on_all(found, missing, chosen.words, confined, how)
    with Place(*next(iter(found.items())), confined) as place:
        return run_golden(place, chosen.golden)


if __name__ == "__main__":
    sys.exit(main())
