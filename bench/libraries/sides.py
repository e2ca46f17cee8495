"""The processes that are timed: berth's and one for each library."""
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PACKAGES = {"numpy": ["numpy"], "jax": ["jax", "numpy"], "torch": ["torch", "numpy"], "tensorflow": ["tensorflow-cpu"]}


class Failure(Exception):
    pass


def build_berth():
    """The command; it is built when needed."""
    done = subprocess.run([ROOT / "go", "build", "release"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}bench/peers.py: berth could not be built")
    return ROOT / "build/release/berth"


def install(library, folder):
    """The Python of an environment that has the library."""
    if library not in PACKAGES:
        sys.exit(f'bench/peers.py: unknown library "{library}"; there are {", ".join(PACKAGES)}')
    place = folder / f"venv-{library}"
    python = place / "bin/python"
    if not python.exists() or subprocess.run([python, "-c", f"import {library}"], stderr=subprocess.DEVNULL).returncode:
        print(f"installing {' '.join(PACKAGES[library])} into {place}", file=sys.stderr, flush=True)
        venv.create(place, clear=True, with_pip=True)
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[library]], stdout=sys.stderr).returncode:
            sys.exit(f"bench/peers.py: {library} could not be installed")
    return python


class Side:
    """A process that is written a line and answers with a line of JSON."""

    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors(), text=True,
                                        env={**os.environ, **environment})

    def errors(self):
        return None

    def alive(self):
        return self.process.poll() is None

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise Failure(f"{self.name}: the process ended with {self.process.wait()} at: {line}")
        return json.loads(answer)


class Berth(Side):
    def __init__(self, command, threads):
        flags = [os.environ.get("BERTH_FLAGS"), f"threads={threads}"]
        super().__init__("berth", [command, "bench", "--interactive"], {"BERTH_FLAGS": ",".join(filter(None, flags))})

    def run(self, row, repetition, file=None):
        answer = self.ask(f"{row} {repetition} {file or ''}")
        if "error" in answer:
            raise Failure(f"{row}: berth: {answer['error']}")
        return answer

    def copy_rate(self):
        """Bytes per second, read and written, of a copy in memory."""
        return self.ask("copy")["bytes_per_s"]


class Worker(Side):
    """A library's process; its peers are ways to use the library."""

    def __init__(self, library, python, threads, two_devices=False):
        self.library, self.python, self.two_devices = library, python, two_devices
        self.environment = {"BERTH_BENCH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu",
                            "OPENBLAS_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        if two_devices:
            flags = [os.environ.get("XLA_FLAGS"), "--xla_force_host_platform_device_count=2"]
            self.environment |= {"XLA_FLAGS": " ".join(filter(None, flags)), "BERTH_BENCH_TWO_DEVICES": "1"}

    def start(self):
        super().__init__(self.library, [self.python, HERE / "worker.py", self.library], self.environment)
        about = self.ask("{}")
        self.versions, self.peers = about["versions"], about["peers"]

    def errors(self):
        return None if os.environ.get("BERTH_BENCH_VERBOSE") else subprocess.DEVNULL

    def run(self, row, peer, repetition, file=None):
        answer = self.ask(json.dumps({"row": row, "peer": peer, "repetition": repetition, "file": file and str(file)}))
        if "error" in answer:
            raise Failure(f"peer {peer}: {row}: {answer['error']}")
        return answer
