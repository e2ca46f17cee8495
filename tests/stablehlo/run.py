#!/usr/bin/env python3
"""Reference cases as functions, exported as StableHLO and run by the real JAX: tests/stablehlo/run.py [--every=N] [FILE...]

Of the cases of tests/golden one in N is taken (8; with BERTH_TEST_LONG all); BERTH_TEST_DRAW says which."""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from libraries import sides  # noqa: E402


def main():
    files = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    every = next((word for word in sys.argv[1:] if word.startswith("--every=")), "--every=1" if os.environ.get("BERTH_TEST_LONG") else "--every=8")
    with tempfile.TemporaryDirectory() as work:
        folders = []
        for file in files or [*sorted((ROOT / "tests/golden").glob("*.safetensors")), Path("programs")]:
            folders.append(Path(work) / file.stem)
            folders[-1].mkdir()
            with folders[-1].with_suffix(".log").open("w") as log:
                subprocess.run([ROOT / "build/release/golden", f"--export={folders[-1]}", every, file], stdout=log, check=True)
        python = sides.install("jax", sides.folder_of_peers(), "cpu")
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([python, HERE / "compare.py", *folders], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
