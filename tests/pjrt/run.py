#!/usr/bin/env python3
"""Runs berth on a real PJRT plugin, XLA's CPU client from PyPI, pinned by its hash, whose devices are taken for TPUs or other accelerators.
    tests/pjrt/run.py [WORD...]             all tests, or those whose name contains a WORD; with BERTH_TEST_LONG=1 many more cases of each
    tests/pjrt/run.py --golden ARGUMENTS    compares with reference files, as build/release/golden does

The plugin is installed outside the tree; BERTH_PJRT_PLUGIN names another one. Everything runs without a network, and, if root starts it, as nobody, on copies in a
folder of its own: who uploaded the plugin is not verified."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build/release"
sys.path.insert(0, str(ROOT / "bench"))
from libraries import sides  # noqa: E402

LIBRARY = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
NOBODY = "65534"
LONG = bool(os.environ.get("BERTH_TEST_LONG"))
DRAW = int(os.environ.get("BERTH_TEST_DRAW") or 0)


def skip(why):
    print(f"pjrt: skipped: {why}")
    sys.exit(77)


# ---- the plugin, and how it is confined


def find_plugin():
    given = os.environ.get("BERTH_PJRT_PLUGIN")
    if given:
        return Path(given)
    folder = sides.folder_of_peers() / "pjrt"
    if not (folder / LIBRARY).exists():
        print(f"installing xla-cpu-pjrt into {folder}", file=sys.stderr, flush=True)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        done = subprocess.run([*pip, "--target", folder, "-r", HERE / "requirements.txt"], stdout=subprocess.DEVNULL, timeout=600)
        if done.returncode or not (folder / LIBRARY).exists():
            skip("xla-cpu-pjrt 0.0.1 could not be had from PyPI")
    return folder / LIBRARY


def confinement():
    """The command in front of a test, and in words what it does."""
    ways = [(["unshare", "-n", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"], "as nobody, without a network"),
            (["unshare", "-n"], "without a network"),
            (["unshare", "-r", "-n"], "without a network")]
    for command, words in ways if os.getuid() == 0 else ways[2:]:
        if shutil.which(command[0]) and subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            return command, words
    return None, None


class Place:
    """A folder that the confined process can read, with a home that it can write to."""

    def __init__(self, folder, plugin, confined):
        self.folder, self.confined = Path(folder), confined
        os.chmod(folder, 0o755)
        self.plugin = self.copy(plugin)
        self.copy(BUILD / "libberth.so.1")
        self.home = self.folder / "home"
        self.home.mkdir()
        os.chmod(self.home, 0o777)

    def copy(self, path):
        to = self.folder / Path(path).name
        if not to.exists():
            shutil.copyfile(path, to)
            os.chmod(to, 0o755)
        return to

    def environment(self, settings):
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(self.home), "TMPDIR": str(self.home), "LD_LIBRARY_PATH": str(self.folder),
                "BERTH_PJRT_PLUGIN": str(self.plugin), "BERTH_DIGITS": str(self.copy(ROOT / "examples/data/digits.csv")), "BERTH_TEST_DRAW": str(DRAW)} | settings

    def flags(self, kind):
        """PoCL, where it is installed, is no accelerator beside the plugin's."""
        return f"pjrt_plugins={kind}:{self.plugin},default_device={kind}:0" + (",opencl_cpu=gpu" if kind == "acc" else "")

    def run(self, command, settings, limit=None):
        """Its exit status and what it printed."""
        with subprocess.Popen([*self.confined, *command], cwd=self.home, env=self.environment(settings), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as process:
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


def conformance(place, kind):
    settings = {"BERTH_TEST_DEVICES": kind, "BERTH_TEST_ONE_IN": "10" if LONG else "100"}
    return Test(f"conformance as {kind}", [place.copy(BUILD / "tests/tests.conformance_test")], settings, rf"{kind}: (\d+) cases passed, 0 failed",
                "conformance cases")


def random_programs(place, *options):
    first = 1 + DRAW % 500
    last = first + (9 if LONG else 0)
    name = " ".join(["random programs", *options])
    return Test(name, [place.copy(BUILD / "tests/random_programs"), "--tpus", *options, "--seeds", f"{first}..{last}"], {"BERTH_FLAGS": place.flags("tpu")},
                r"(\d+) programs, .* 0 differences", "random programs")


def example(place, source):
    """On TPUs where it names GPUs; its expected text says so too, unless there is one here."""
    stem, own = source.stem, HERE / f"{source.stem}.expected"
    folder = place.folder / stem
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
             random_programs(place), *([random_programs(place, "--loops")] if LONG else [])]
    return tests + [example(place, source) for source in sorted((ROOT / "examples/jax").glob("*.c"))]


def passes(place, test, counts):
    started = time.monotonic()
    status, text = place.run(test.command, test.settings, 6 * 3600 if LONG else 900)
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
    status, text = place.run([place.copy(BUILD / "golden"), *options, *files], {"BERTH_FLAGS": place.flags("tpu")})
    print(text, end="")
    return status


def main():
    plugin = find_plugin()
    confined, how = confinement()
    if not confined:
        skip("a process without a network cannot be made here (unshare)")
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, plugin, confined)
        if sys.argv[1:2] == ["--golden"]:
            return run_golden(place, sys.argv[2:])
        return run_tests(place, sys.argv[1:], how)


if __name__ == "__main__":
    sys.exit(main())
