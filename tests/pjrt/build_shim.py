#!/usr/bin/env python3
"""The second source of a plugin: a shim (shim/) over the XLA that tensorflow-cpu's library exports. The wheel's headers and libraries, and the shim, which is built when its sources
change, lie in the folder of peers, outside the tree. As a command it prints the shim's path; BERTH_PJRT_SHIM_DEVICES, of the process that opens
it, is the number of its devices, else 4."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import plugins
from plugins import HERE, ROOT

NAME = "tensorflow-cpu"
REQUIREMENTS = "requirements-tensorflow.txt"
LIBRARIES = ["libtensorflow_cc.so.2", "libtensorflow_framework.so.2"]  # what the shim needs at run time, beside it
# Of the wheel's headers those that XLA's client includes.
HEADERS = ["xla", "tsl", "absl", "google", "Eigen", "unsupported", "ml_dtypes", "external/highwayhash", "external/farmhash_archive"]
# The last two are as the library was built: they change layouts.
FLAGS = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-invalid-offsetof", "-fPIC", "-DNDEBUG", "-DEIGEN_MAX_ALIGN_BYTES=64"]
COMPILE_SECONDS = 1800  # it takes a minute on an idle machine
DOWNLOAD_SECONDS = 1800  # of 274 MB


def version():
    return plugins.pinned(NAME, REQUIREMENTS)


def extract(wheel, folder):
    """Headers and libraries; no more is needed of its 1.3 GB."""
    wanted = tuple(f"tensorflow/include/{name}/" for name in HEADERS) + tuple(f"tensorflow/{name}" for name in LIBRARIES)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(wanted)])


def install(folder):
    """All of it or nothing. The hash is pip's to check."""
    if (folder / "tensorflow").exists():
        return
    print(f"installing {NAME} into {folder}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        command = [sys.executable, "-m", "pip", "download", *plugins.PIP_OPTIONS, "--dest", temporary, "-r", HERE / REQUIREMENTS]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdout=subprocess.DEVNULL, timeout=DOWNLOAD_SECONDS)
        wheels = list(Path(temporary).glob("*.whl"))
        if len(wheels) != 1:
            raise plugins.Missing(f"{version()} could not be had from PyPI")
        extract(wheels[0], Path(temporary) / "wheel")
        os.replace(Path(temporary) / "wheel/tensorflow", folder / "tensorflow")


def sources():
    return sorted(path for path in (HERE / "shim").rglob("*") if path.is_file()) + [ROOT / "src/drivers/pjrt/api.h", ROOT / "src/drivers/pjrt/entries.def"]


def key():
    """Of what the shim is made of."""
    digest = hashlib.sha256(repr(FLAGS).encode() + (HERE / REQUIREMENTS).read_bytes())
    for path in sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def find_compiler():
    for name in [os.environ["CXX"]] if os.environ.get("CXX") else ["g++", "c++"]:
        if shutil.which(name):
            return shutil.which(name)
    raise plugins.Missing(f"the shim over {version()} needs a compiler of C++ (g++, or what CXX names)")


def compile_shim(compiler, folder, shim):
    print(f"building {shim}", file=sys.stderr, flush=True)
    include = folder / "tensorflow/include"
    system = [include, include / "external/highwayhash", include / "external/farmhash_archive/src"]
    files = [HERE / "shim" / name for name in ("layout.cc", "plugin.cc")]
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        made = Path(temporary) / shim.name
        command = [compiler, *FLAGS, f"-I{HERE / 'shim'}", f"-I{ROOT / 'src'}", *(f"-isystem{path}" for path in system), "-shared", *files, "-o", made,
                   f"-L{folder / 'tensorflow'}", *(f"-l:{name}" for name in LIBRARIES), "-Wl,-z,defs", "-Wl,-rpath,$ORIGIN"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=COMPILE_SECONDS)
        if done.returncode:
            sys.exit(f"{done.stdout}tests/pjrt: the shim over {version()} does not compile")  # its sources are at fault
        os.replace(made, shim)


def companions(library):
    """Libraries beside a plugin's that it needs."""
    return [path for path in (library.parent / name for name in LIBRARIES) if path.exists()]


def find():
    """The shim's path."""
    folder = plugins.sides.folder_of_peers() / NAME
    shim = folder / "tensorflow" / f"libpjrt_shim-{key()}.so"
    if shim.exists():
        return shim
    compiler = find_compiler()
    folder.mkdir(exist_ok=True)
    install(folder)
    compile_shim(compiler, folder, shim)
    return shim


if __name__ == "__main__":
    try:
        print(find())
    except plugins.Missing as missing:
        sys.exit(f"tests/pjrt/build_shim.py: {missing}")
