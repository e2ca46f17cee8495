#!/usr/bin/env python3
"""Tests on a real PJRT plugin, XLA's CPU client from PyPI, pinned by its hash: tests/pjrt/run.py [NAME...]

NAME is a test program of build/release/tests; without it, all of TESTS. The plugin is installed outside the tree, and BERTH_PJRT_PLUGIN names another one. The tests run
without a network, and, if root starts them, as nobody, on copies in a folder of their own: who uploaded the plugin is not verified."""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from libraries import sides  # noqa: E402

TESTS = {"drivers.pjrt.real_test": {}}  # its environment
LIBRARY = "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
NOBODY = "65534"


def skip(why):
    print(f"pjrt: skipped: {why}")
    sys.exit(77)


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


def main():
    unknown = [name for name in sys.argv[1:] if not (ROOT / "build/release/tests" / name).exists()]
    if unknown:
        sys.exit(f"tests/pjrt/run.py: no test {unknown[0]} in build/release/tests")
    plugin = find_plugin()
    command, words = confinement()
    if not command:
        skip("a process without a network cannot be made here (unshare)")
    failed = []
    names = sys.argv[1:] or list(TESTS)
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        copy = Path(work) / plugin.name
        shutil.copyfile(plugin, copy)
        os.chmod(copy, 0o755)
        home = Path(work) / "home"
        home.mkdir()
        os.chmod(home, 0o777)
        for name in names:
            test = Path(work) / name
            shutil.copy(ROOT / "build/release/tests" / name, test)
            os.chmod(test, 0o755)
            environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "BERTH_PJRT_PLUGIN": str(copy),
                           "LD_LIBRARY_PATH": str(ROOT / "build/release")} | TESTS.get(name, {})
            done = subprocess.run([*command, test], cwd=home, env=environment, timeout=900)
            if done.returncode:
                failed.append(name)
    print(f"pjrt: {len(names) - len(failed)} of {len(names)} tests passed on {plugin.name}, {words}" + "".join(f"; {name} failed" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
