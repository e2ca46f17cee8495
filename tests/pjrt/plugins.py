"""PJRT plugins from PyPI, pinned by their hashes and installed outside the tree, and processes that run them: without a network and, if root starts them, as nobody, on
copies in a folder of their own."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from libraries import sides  # noqa: E402

NOBODY = "65534"
# By name: the variable that names another library, the folder and the file of requirements, and the library in that folder.
PLUGINS = {"xla-cpu-pjrt": ("BERTH_PJRT_PLUGIN", "pjrt", "requirements.txt", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"),
           "libtpu": ("BERTH_LIBTPU", "libtpu", "requirements-libtpu.txt", "libtpu/libtpu.so"),
           "jax-cuda13-pjrt": ("BERTH_XLA_CUDA", "jax-cuda-pjrt", "requirements-cuda.txt", "jax_plugins/xla_cuda13/xla_cuda_plugin.so")}
# One wheel for every Python: no Python loads it.
PIP_OPTIONS = ["-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes", "--implementation", "cp", "--python-version", "3.11"]


class Missing(Exception):
    """Why there is no such plugin here."""


def find(name):
    """The library's path."""
    variable, place, requirements, library = PLUGINS[name]
    if os.environ.get(variable):
        return Path(os.environ[variable])
    folder = sides.folder_of_peers() / place
    if not (folder / library).exists():
        print(f"installing {name} into {folder}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "pip", "install", *PIP_OPTIONS, "--target", folder, "-r", HERE / requirements]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=900)
        if done.returncode or not (folder / library).exists():
            raise Missing(f"{version(name)} could not be had from PyPI")
    return folder / library


def version(name):
    """As the file of requirements pins it."""
    variable, _, requirements, _ = PLUGINS[name]
    return os.environ.get(variable) or pinned(name, requirements)


def pinned(name, requirements):
    return next(line.split()[0].replace("==", " ") for line in (HERE / requirements).read_text().splitlines() if line.startswith(name))


def confinement():
    """The command in front of a process, and in words what it does."""
    ways = [(["unshare", "-n", "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"], "as nobody, without a network"),
            (["unshare", "-n"], "without a network"),
            (["unshare", "-r", "-n"], "without a network")]
    for command, words in ways if os.getuid() == 0 else ways[2:]:
        if shutil.which(command[0]) and subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            return command, words
    return None, None


class Room:
    """A folder with copies that confined processes may read, and with `home`, which they may write. For a `with`."""

    def __init__(self, confined_by):
        self.command = confined_by

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the folder is removed
        self.temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.path = Path(self.temporary.name)
        os.chmod(self.path, 0o755)
        self.home = self.path / "home"
        self.home.mkdir()
        os.chmod(self.home, 0o777)
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def copy(self, path):
        copy = self.path / path.name
        shutil.copyfile(path, copy)
        os.chmod(copy, 0o755)
        return copy

    def link(self, path):
        """A large file that is not written to, where the file system allows it."""
        there = self.path / path.name
        try:
            if path.stat().st_mode & 0o004:
                os.link(path, there)
                return there
        except OSError:
            pass
        return self.copy(path)

    def environment(self, more):
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "TMPDIR": str(self.home)} | more

    def run(self, words, more, **settings):
        return subprocess.run([*self.command, *words], cwd=self.home, env=self.environment(more), **settings)

    def start(self, words, more, **settings):
        return subprocess.Popen([*self.command, *words], cwd=self.home, env=self.environment(more), **settings)
