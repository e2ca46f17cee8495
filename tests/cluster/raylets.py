"""A Ray cluster of several nodes on this machine, for tests: processes of its own, which end with it; other Rays of the machine are left alone."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_COLOR_PREFIX": "0",
               # a node that is gone is noticed soon
               "RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "1000", "RAY_health_check_timeout_ms": "2000",
               "RAY_health_check_failure_threshold": "3"}
START_SECONDS = 60
STORE_BYTES = 300 << 20


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def own_address():
    """Not 127.0.0.1, which Ray's nodes do not take from each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
            return one.getsockname()[0]
        except OSError:
            return "127.0.0.1"


class Node:
    def __init__(self, cluster, name, arguments, gpus):
        self.log = cluster.folder / f"{name}.log"
        environment = os.environ | ENVIRONMENT | {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([cluster.ray, "start", "--block", f"--node-ip-address={cluster.ip}", f"--num-gpus={len(gpus)}",
                                             "--disable-usage-stats", f"--object-store-memory={STORE_BYTES}", *arguments],
                                            stdout=log, stderr=log, env=environment, start_new_session=True)
        until = time.monotonic() + START_SECONDS
        while "Ray runtime started" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failed(f"{name} did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def members(self):
        """All processes of the node: those of its session."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            if int(text.rpartition(")")[2].split()[3]) == self.process.pid:
                found.append(int(stat.parent.name))
        return found

    def kill(self):
        """As a machine that loses its power."""
        for pid in self.members():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                pass
        self.kill()


class Cluster:
    """`gpus`: of each node their numbers; the first is the head."""

    def __init__(self, python, cpus=(4, 2), gpus=((0, 1, 2, 3), (6, 7))):
        self.ray = Path(python).parent / "ray"
        self.folder = Path(tempfile.mkdtemp(prefix="berth-cluster-"))
        self.ip, self.port = own_address(), free_port()
        self.address = f"{self.ip}:{self.port}"
        self.nodes = []
        try:
            self.nodes.append(Node(self, "head", ["--head", f"--port={self.port}", f"--num-cpus={cpus[0]}", "--include-dashboard=false",
                                                  f"--temp-dir={self.folder / 'ray'}"], gpus[0]))
            for i in range(1, len(cpus)):
                self.add(cpus[i], gpus[i])
        except BaseException:
            self.stop()
            raise

    def add(self, cpus, gpus, more=()):
        node = Node(self, f"node{len(self.nodes)}", [f"--address={self.address}", f"--num-cpus={cpus}", *more], gpus)
        self.nodes.append(node)
        return node

    def stop(self):
        for node in reversed(self.nodes):
            node.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
