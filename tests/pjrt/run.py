#!/usr/bin/env python3
"""Tests on a real PJRT plugin, XLA's CPU client from PyPI, pinned by its hash: tests/pjrt/run.py [NAME...]

NAME is a test program of build/release/tests; without it, all of TESTS. BERTH_PJRT_PLUGIN names another plugin. The tests run confined (plugins.py): who uploaded the
plugin is not verified."""
import sys

import plugins
from plugins import ROOT

TESTS = {"drivers.pjrt.real_test": {}}  # its environment


def skip(why):
    print(f"pjrt: skipped: {why}")
    sys.exit(77)


def main():
    unknown = [name for name in sys.argv[1:] if not (ROOT / "build/release/tests" / name).exists()]
    if unknown:
        sys.exit(f"tests/pjrt/run.py: no test {unknown[0]} in build/release/tests")
    plugin = plugins.find("xla-cpu-pjrt") or skip("xla-cpu-pjrt 0.0.1 could not be had from PyPI")
    command, words = plugins.confinement()
    if not command:
        skip("a process without a network cannot be made here (unshare)")
    failed = []
    names = sys.argv[1:] or list(TESTS)
    with plugins.Room(command) as room:
        copy = room.copy(plugin)
        for name in names:
            test = room.copy(ROOT / "build/release/tests" / name)
            environment = {"BERTH_PJRT_PLUGIN": str(copy), "LD_LIBRARY_PATH": str(ROOT / "build/release")} | TESTS.get(name, {})
            if room.run([test], environment, timeout=900).returncode:
                failed.append(name)
    print(f"pjrt: {len(names) - len(failed)} of {len(names)} tests passed on {plugin.name}, {words}" + "".join(f"; {name} failed" for name in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
