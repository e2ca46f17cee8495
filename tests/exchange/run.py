#!/usr/bin/env python3
"""Files, DLPack and models beside the real NumPy, PyTorch, JAX, ml_dtypes, safetensors and transformers: tests/exchange/run.py [NAME...]

NAME is numpy, torch, jax, safetensors or models: NAME_checks.py runs in an environment outside the tree (bench/libraries/sides.py)."""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from libraries import sides  # noqa: E402

ENVIRONMENTS = {"numpy": "safetensors", "torch": "torch", "jax": "jax", "safetensors": "safetensors", "models": "torch"}
BESIDE = {"models": ["transformers", "safetensors", "tokenizers"]}  # packages beside those of the environment


def main():
    names = sys.argv[1:] or list(ENVIRONMENTS)
    unknown = [name for name in names if name not in ENVIRONMENTS]
    if unknown:
        sys.exit(f"tests/exchange/run.py: unknown {unknown[0]}; there are {', '.join(ENVIRONMENTS)}")
    passed = failed = 0
    for name in names:
        environment = os.environ | {"BERTH_LIBRARY": os.environ.get("BERTH_LIBRARY") or str(ROOT / "build/release/libberth.so.1"),
                                    "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
        python = sides.install(ENVIRONMENTS[name], sides.folder_of_peers(), "cpu")
        if name in BESIDE:
            environment |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_OFFLINE": "1"}
            environment["PYTHONPATH"] = str(sides.install_beside(name, BESIDE[name], python, sides.folder_of_peers()))
        code = f"import checks, {name}_checks, sys; sys.exit(checks.run({name}_checks))"
        done = subprocess.run([python, "-c", code], cwd=HERE, env=environment, stdout=subprocess.PIPE, text=True)
        *told, line = done.stdout.strip().splitlines() or ["0 passed, 1 failed"]
        print("".join(f"    {text}\n" for text in told), end="")
        words = line.replace(",", "").split()
        good, bad = (int(words[0]), int(words[2])) if len(words) == 4 else (0, 1)
        passed, failed = passed + good, failed + (bad or (1 if done.returncode else 0))
        print(f"{name}: {line}", flush=True)
    print(f"exchange: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
