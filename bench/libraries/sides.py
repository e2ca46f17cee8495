"""The processes that are timed: berth's and one for each library."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PACKAGES = {"numpy": ["numpy"], "jax": ["jax", "numpy"], "torch": ["torch", "numpy"], "tensorflow": ["tensorflow-cpu"],
            "ray": ["ray==2.60.*", "numpy"], "safetensors": ["safetensors", "numpy", "ml_dtypes"]}
CUDA_PACKAGES = {"jax": ["jax[cuda{}]", "numpy"], "torch": ["torch", "numpy"], "cublas": ["nvidia-cublas{}", "numpy"]}

CLOSE_SECONDS = 30  # that a process has to end by itself


class Failure(Exception):
    pass


def refuse_unknown(parser, rows, known):
    for row in rows:
        if row not in known:
            near = get_close_matches(row, known, 1)
            parser.error(f'unknown row "{row}"' + (f'; did you mean "{near[0]}"?' if near else ""))


def folder_of_peers():
    """Where libraries are installed."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth-bench"
    folder = Path(os.environ.get("BERTH_BENCH_DIR") or default)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def build_berth():
    """The command; it is built when needed."""
    done = subprocess.run([ROOT / "go", "build", "release"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}bench/peers.py: berth could not be built")
    return ROOT / "build/release/berth"


def cuda_packages(library):
    """For CUDA 13 where the driver takes it (580 and later), else for 12."""
    told = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True).stdout \
        if shutil.which("nvidia-smi") else ""
    version = re.match(r"(\d+)", told)
    old = version and int(version[1]) < 580
    names = {"jax": "12" if old else "13", "cublas": "-cu12" if old else ""}
    return [package.format(names.get(library, "")) for package in CUDA_PACKAGES[library]]


def has(python, library):
    """Whether that Python has what the library's rows need."""
    code = "import numpy" if library == "cublas" else f"import {library}, numpy"
    return subprocess.run([python, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def install(library, folder, device):
    """The Python of an environment that has the library. For devices this Python, when it has it: a machine with a GPU may have
    no network."""
    known = PACKAGES if device == "cpu" else CUDA_PACKAGES
    if library not in known:
        sys.exit(f'bench/peers.py: unknown library "{library}"; there are {", ".join(known)}')
    if device != "cpu":
        for python in (sys.executable, shutil.which("python3")):
            if python and has(python, library):
                return python
    place = folder / (f"venv-{library}" + ("" if device == "cpu" else "-cuda"))
    python = place / "bin/python"
    if not python.exists() or not has(python, library):
        packages = PACKAGES[library] if device == "cpu" else cuda_packages(library)
        print(f"installing {' '.join(packages)} into {place}", file=sys.stderr, flush=True)
        try:
            venv.create(place, clear=True, with_pip=True)
            done = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], stdout=sys.stderr).returncode == 0
        except (OSError, subprocess.SubprocessError):
            done = False
        if not done:
            raise Failure(f"{library} is not here and could not be installed")
    return python


def install_beside(name, packages, python, folder):
    """A folder for PYTHONPATH with packages that an environment of `install` lacks."""
    place = folder / f"beside-{name}"
    if not (place / "complete").exists():
        print(f"installing {' '.join(packages)} into {place}", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", place, *packages],
                              stdout=sys.stderr).returncode == 0
        if not done:
            raise Failure(f"{' '.join(packages)} could not be installed")
        (place / "complete").touch()
    return place


def start_of(pid):
    """When that process was started, in ticks; None: it is gone. Numbers of processes are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def descendants(pid):
    """(number, start) of all that a process started, and they."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:
            continue
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += [(child, start_of(child)) for child in children]
        left += children
    return found


class Side:
    """A process that is written a line and answers with a line of JSON."""

    def __init__(self, name, command, environment):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors(), text=True,
                                        env={**os.environ, **environment})

    def errors(self):
        return None

    def memory(self, field):
        """Of /proc/PID/status, in bytes: VmRSS, what it has now; VmHWM, the most that it had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s*(\d+) kB$", status, re.M)[1]) * 1024

    def alive(self):
        return self.process.poll() is None

    def close(self):
        """Ends it and whatever it started."""
        if self.process.returncode is not None:
            return
        started = descendants(self.process.pid)
        self.process.stdin.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid, begun in started:
            with suppress(ProcessLookupError):
                if start_of(pid) == begun:
                    os.kill(pid, signal.SIGKILL)

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
    def __init__(self, command, chosen, name="berth"):
        flags = [os.environ.get("BERTH_FLAGS"), f"threads={chosen.threads}"]
        target = ["--shrink", str(chosen.shrink), *([] if chosen.device == "cpu" else ["--device", chosen.device])]
        super().__init__(name, [command, "bench", "--interactive", *target], {"BERTH_FLAGS": ",".join(filter(None, flags))})

    def run(self, row, repetition, file=None):
        return self.send(row, f"{row} {repetition} {file or ''}")

    def first(self, row):
        """Of a row that is prepared anew: the first call and later ones."""
        return self.send(row, f"first {row}")

    def send(self, row, line):
        answer = self.ask(line)
        if "error" in answer:
            raise Failure(f"{row}: {self.name}: {answer['error']}")
        return answer

    def copy_rate(self):
        """Bytes per second, read and written, of a copy within the device's memory."""
        return self.ask("copy")["bytes_per_s"]


class Before:
    """Another build of berth as a peer, for what a change costs. Its results are not compared."""

    def __init__(self, chosen):
        self.chosen, self.peers = chosen, {"berth_before": chosen.rows}
        self.versions = {"berth_before": subprocess.run([chosen.against, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()}

    def start(self):
        self.berth = Berth(self.chosen.against, self.chosen, "berth_before")

    def run(self, row, _, repetition, __=None):
        if not self.berth.alive():
            self.start()
        return self.berth.run(row, repetition)


class Worker(Side):
    """A library's process; its peers are ways to use the library."""

    def __init__(self, library, python, chosen, two_devices=False):
        self.library, self.python, self.two_devices = library, python, two_devices
        threads, on_gpu = str(chosen.threads), chosen.peer_device == "cuda"
        self.environment = {"BERTH_BENCH_THREADS": threads, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads,
                            "TF_CPP_MIN_LOG_LEVEL": "2", "BERTH_BENCH_DEVICE": chosen.peer_device,
                            "BERTH_BENCH_SHRINK": str(chosen.shrink)}
        if on_gpu:  # memory as it is needed: others use the card too
            self.environment |= {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        else:
            self.environment |= {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
        if two_devices and on_gpu:
            self.environment["BERTH_BENCH_TWO_DEVICES"] = "1"
        elif two_devices:
            flags = [os.environ.get("XLA_FLAGS"), "--xla_force_host_platform_device_count=2"]
            self.environment |= {"XLA_FLAGS": " ".join(filter(None, flags)), "BERTH_BENCH_TWO_DEVICES": "1"}

    def start(self):
        super().__init__(self.library, [self.python, HERE / "worker.py", self.library], self.environment)
        about = self.ask("{}")
        self.versions, self.peers = about["versions"], about["peers"]

    def errors(self):
        return None if os.environ.get("BERTH_BENCH_VERBOSE") else subprocess.DEVNULL

    def run(self, row, peer, repetition, file=None):
        return self.send(row, peer, repetition=repetition, file=file and str(file))

    def first(self, row, peer):
        """Of a row that is prepared anew: the first call and later ones."""
        return self.send(row, peer, first=True)

    def send(self, row, peer, **more):
        answer = self.ask(json.dumps({"row": row, "peer": peer, **more}))
        if "error" in answer:
            raise Failure(f"peer {peer}: {row}: {answer['error']}")
        return answer
