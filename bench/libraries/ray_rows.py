"""Tasks and actors of Ray, on a cluster of its own that ends with this process. The same in berth: bench/tasks.c."""
import atexit
import os
import shutil
import tempfile

import numpy

from common import MILLION, SHRINK, Row

os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
import ray  # noqa: E402

VERSIONS = {"Ray": ray.__version__}
CPUS, TRIPS, BATCH, ELEMENTS = 2, 1000 // SHRINK, 10_000 // SHRINK, 25 * MILLION // SHRINK
STORE_BYTES = 512 << 20


@ray.remote
def next_number(n):
    return n + 1


@ray.remote
def make(count):
    return numpy.full(count, 3, numpy.float32)


@ray.remote
def last(x):
    return float(x[-1])


@ray.remote
class Counter:
    def __init__(self, start):
        self.total = start

    def add(self, n):
        self.total += n
        return self.total


def wait(result):
    return result


def start():
    """Whatever cluster is on this machine is left alone."""
    folder = tempfile.mkdtemp(prefix="berth-ray-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(ray.shutdown)
    ray.init(address="local", num_cpus=CPUS, include_dashboard=False, object_store_memory=STORE_BYTES, _temp_dir=folder,
             log_to_driver=False, logging_level="error")


def expect(good):
    if not good:
        raise ValueError("a wrong result")


def on_cluster(make_row):
    """The maker of a row that has a cluster."""

    def make_it():
        if not ray.is_initialized():
            start()
        return make_row()

    return make_it


def task_round_trip(repetition):
    for i in range(TRIPS):
        expect(ray.get(next_number.remote(i)) == i + 1)


def task_batch(repetition):
    expect(ray.get([next_number.remote(i) for i in range(BATCH)]) == list(range(1, BATCH + 1)))


def first_task(repetition):
    start()
    expect(ray.get(next_number.remote(41)) == 42)


def first_actor(repetition):
    expect(ray.get(Counter.remote(5).add.remote(1)) == 6)


def actor_rows():
    """Of one actor, which lives as long as they do."""
    counter, total = Counter.remote(0), 0

    def round_trip(repetition):
        nonlocal total
        for _ in range(TRIPS):
            total += 1
            expect(ray.get(counter.add.remote(1)) == total)

    def batch(repetition):
        nonlocal total
        expect(ray.get([counter.add.remote(1) for _ in range(BATCH)]) == list(range(total + 1, total + BATCH + 1)))
        total += BATCH

    return round_trip, batch


def put_row():
    x = numpy.full(ELEMENTS, 3, numpy.float32)
    return Row(lambda repetition: expect(ray.get(ray.put(x))[-1] == 3))


def put_1kb(repetition):
    for i in range(TRIPS):
        expect(ray.get(ray.put(bytes([i % 256]) * 1024))[1000] == i % 256)


def ref_row():
    made = make.remote(ELEMENTS)
    ray.wait([made])
    return Row(lambda repetition: expect(ray.get(last.remote(made)) == 3))


PEERS = {
    "ray": {
        "first_task": lambda: Row(first_task, warm=False),
        "task_round_trip": on_cluster(lambda: Row(task_round_trip, steps=TRIPS)),
        "task_batch": on_cluster(lambda: Row(task_batch)),
        "first_actor": on_cluster(lambda: Row(first_actor)),
        "actor_round_trip": on_cluster(lambda: Row(actor_rows()[0], steps=TRIPS)),
        "actor_batch": on_cluster(lambda: Row(actor_rows()[1])),
        "put_1kb": on_cluster(lambda: Row(put_1kb, steps=TRIPS)),
        "put_100mb": on_cluster(put_row),
        "ref_100mb": on_cluster(ref_row),
    }
}
