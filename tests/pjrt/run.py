#!/usr/bin/env python3
"""Runs berth on a real PJRT plugin, XLA's CPU client from PyPI, pinned by its hash, whose devices are taken for TPUs or other accelerators.
    tests/pjrt/run.py [WORD...]             all tests, or those whose name contains a WORD; with BERTH_TEST_LONG=1 many more cases of each
    tests/pjrt/run.py --golden ARGUMENTS    compares with reference files, as build/release/golden does

BERTH_PJRT_PLUGIN names another plugin. Everything runs confined (plugins.py), since who uploaded the plugin is not verified."""
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

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

    def __init__(self, plugin, confined):
        super().__init__(confined)
        self.original = plugin

    def __enter__(self):
        super().__enter__()
        self.plugin = self.copy(self.original)
        self.copy(BUILD / "libberth.so.1")
        return self

    def copy(self, path):
        there = self.path / Path(path).name
        return there if there.exists() else super().copy(Path(path))

    def environment(self, more):
        return super().environment({"LANG": "C.UTF-8", "LD_LIBRARY_PATH": str(self.path), "BERTH_PJRT_PLUGIN": str(self.plugin),
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


def golden(place, name, flags, pattern, *options):
    files = [place.copy(path) for path in sorted((ROOT / "tests/golden").glob(pattern))]
    return Test(name, [place.copy(BUILD / "golden"), *options, *files], {"BERTH_FLAGS": flags}, r"(\d+) passed, 0 failed", "reference cases")


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
             golden(place, "reference files", tpu, "*.safetensors", f"--every={1 if LONG else 6}"),
             golden(place, "a reference file as acc", acc, "arrays.safetensors", f"--every={1 if LONG else 6}"),
             golden(place, "training on four", tpu, "training.safetensors", "--mirrored"),
             Test("digits on four", [berth, "demo", "--save", place.home / "digits.safetensors"], {"BERTH_FLAGS": tpu}, expected="TPU:3 "),
             Test("a small GPT", [berth, "demo", "gpt", "--epochs", "1", "--save", place.home / "gpt.safetensors"], {"BERTH_FLAGS": tpu}),
             conformance(place, "tpu"), conformance(place, "acc"),
             Test("sizes that vary", [place.copy(BUILD / "tests/tests.pad_sizes_test")]), conformance(place, "tpu", "pad_sizes=on"),
             random_programs(place, flags="pad_sizes=on"), random_programs(place), *([random_programs(place, "--loops")] if LONG else [])]
    return tests + [example(place, source) for source in sorted((ROOT / "examples/jax").glob("*.c"))]


def passes(place, test, counts):
    started = time.monotonic()
    status, text = place.output_of(test.command, test.settings, 6 * 3600 if LONG else 900)
    found = re.findall(test.counts, text) if test.counts else []
    passed = status == 0 and test.expected in text and (found or not test.counts)
    for count in found:
        counts[test.what] = counts.get(test.what, 0) + int(count)
    print(f"{test.name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - started:.0f} s{''.join(f', {count} {test.what}' for count in found)}", flush=True)
    if not passed:
        print(text[-20000:], f"exit status {status}", sep="\n", flush=True)
    return passed


def run_tests(place, words, how):
    tests = [test for test in list_tests(place) if not words or any(word in test.name for word in words)]
    if not tests:
        sys.exit(f"tests/pjrt/run.py: no test's name contains {' or '.join(words)}")
    counts = {}
    failed = [test.name for test in tests if not passes(place, test, counts)]
    print(f"pjrt: {len(tests) - len(failed)} of {len(tests)} tests passed on {place.plugin.name}, {how}" + "".join(f", {n} {what}" for what, n in counts.items()) +
          "".join(f"; {name} failed" for name in failed))
    return 1 if failed else 0


def run_golden(place, arguments):
    options = [argument for argument in arguments if argument.startswith("--")]
    files = [place.copy(argument) for argument in arguments if not argument.startswith("--")]
    status, text = place.output_of([place.copy(BUILD / "golden"), *options, *files], {"BERTH_FLAGS": place.flags("tpu")})
    print(text, end="")
    return status


def main():
    plugin = plugins.find("xla-cpu-pjrt") or skip("xla-cpu-pjrt 0.0.1 could not be had from PyPI")
    confined, how = plugins.confinement()
    if not confined:
        skip("a process without a network cannot be made here (unshare)")
    with Place(plugin, confined) as place:
        if sys.argv[1:2] == ["--golden"]:
            return run_golden(place, sys.argv[2:])
        return run_tests(place, sys.argv[1:], how)


if __name__ == "__main__":
    sys.exit(main())
