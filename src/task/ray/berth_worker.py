"""Runs calls in a worker of Ray: loads libberth and the modules, hands over arguments where they lie, and takes results (worker.h)."""
import atexit
import ctypes
import itertools
import os
import pickle
import signal
import threading
import weakref

import ray

import berth_failures as failures
import berth_files
from berth_failures import failure
from berth_frames import CALL_HEAD, CANCELLED, HAS_GPUS, HAS_LARGE, HIDES_GPUS, MAKES_ACTOR
from berth_session import Session

MOST_RESULTS, MOST_TEXT = 100, 1200
MASK = "CUDA_VISIBLE_DEVICES"


class Output(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64), ("ids", ctypes.POINTER(ctypes.c_uint64)),
                ("id_count", ctypes.c_uint64), ("is_room", ctypes.c_uint64)]


class Job(ctypes.Structure):
    """bti_ray_job."""

    _fields_ = [("call", ctypes.c_char_p), ("call_bytes", ctypes.c_uint64), ("large", ctypes.c_void_p), ("large_bytes", ctypes.c_uint64),
                ("values", ctypes.c_void_p), ("value_bytes", ctypes.c_void_p), ("tokens", ctypes.c_void_p), ("gpus", ctypes.c_void_p),
                ("value_count", ctypes.c_uint32), ("gpu_count", ctypes.c_uint32), ("text", ctypes.c_char * MOST_TEXT),
                ("status", ctypes.c_int32), ("output_count", ctypes.c_uint32), ("outputs", Output * MOST_RESULTS)]


class Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def address_of(data):
    """Where the bytes lie, as long as `data` is there."""
    buffer = Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(buffer), 0)
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


class WorkerSession(Session):
    """Frames come and go by calls; large values pass by their addresses."""

    def __init__(self, library):
        self.library = library
        self.shown, self.tokens = {}, itertools.count(1)
        self.cancelled = threading.local()
        super().__init__(self.receive)
        self.handlers[CANCELLED] = self.is_cancelled

    def receive(self, frame):
        self.library.bti_ray_receive(frame, len(frame))

    def from_library(self, address, size):
        """A frame from libberth: everything is done when this returns."""
        try:
            left = self.handle(ctypes.string_at(address, size))
            if left:
                left()
        except BaseException as error:
            print(f"berth: a frame failed: {type(error).__name__}: {error}", flush=True)

    def is_cancelled(self, request, reader):
        self.cancelled.now = getattr(self.cancelled, "now", False) or ray.get_runtime_context().is_canceled()
        self.answer(request, number=int(self.cancelled.now))

    @staticmethod
    def open_large(number, size):
        return memoryview((ctypes.c_char * size).from_address(number)).cast("B")

    def show(self, data):
        address = address_of(data)
        self.shown.setdefault(address, []).append(data)
        return address

    def token(self, data):
        number = next(self.tokens)
        self.shown[number] = [data]
        return number

    def unmap(self, number):
        kept = self.shown.get(number)
        if kept:
            kept.pop()
            if not kept:
                del self.shown[number]


class Process:
    """What this process has loaded."""

    def __init__(self, sources, files):
        if files["flags"]:
            os.environ["BERTH_FLAGS"] = files["flags"]
        self.library = ctypes.CDLL(berth_files.local(files["berth"]), mode=ctypes.RTLD_GLOBAL)
        for name, kinds in {"bti_ray_receive": [ctypes.c_char_p, ctypes.c_uint64], "bti_ray_run": [ctypes.c_void_p],
                            "bti_ray_free": [ctypes.c_void_p], "bti_ray_module": [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p],
                            "bti_ray_program": [ctypes.c_char_p, ctypes.c_char_p]}.items():
            getattr(self.library, name).argtypes = kinds
        self.session = WorkerSession(self.library)
        self.session.sources, self.session.files = sources, berth_files.Files(files)
        self.loaded, self.loading = set(), threading.Lock()
        self.gpus, self.local = [], threading.local()
        self.send = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)(self.session.from_library)
        if not self.library.bti_ray_worker_begin(self.send):
            raise failure(failures.INTERNAL, failures.REFUSED, "this process is no worker")
        atexit.register(self.library.bti_ray_worker_end)
        self.before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self.interrupted)

    def interrupted(self, number, frame):
        """ray.cancel interrupts the first thread. A function of berth's asks whether it was cancelled; Python around it must not end halfway."""
        if getattr(self.local, "runs", False):
            self.session.cancelled.now = True
        elif callable(self.before):
            self.before(number, frame)

    def load(self, content, files):
        """The module, or the program, whose function is called."""
        with self.loading:
            if content in self.loaded:
                return
            known = self.session.files.known
            known.update({key: file for key, file in files.items() if key not in known})
            if content not in known:
                raise failure(failures.FAILED_PRECONDITION, failures.REFUSED, "the module of the function was not sent along")
            path, text = berth_files.local(known[content]).encode(), ctypes.create_string_buffer(MOST_TEXT)
            status = self.library.bti_ray_module(content, path, text) if content else self.library.bti_ray_program(path, text)
            if status == failures.FAILED_PRECONDITION and content:
                raise failure(status, failures.REFUSED, f"module {known[content][0]} has changed since the program loaded it: it was overwritten or "
                              "replaced before a call of it was made")
            if status:
                raise failure(status, failures.REFUSED, text.value.decode(errors="replace"))
            self.loaded.add(content)

    def know_gpus(self):
        """In ascending order, and so in the mask."""
        names = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        if all(name.isdigit() for name in names):
            self.gpus = sorted(map(int, names))
            if names:
                os.environ[MASK] = ",".join(map(str, self.gpus))
        else:
            self.gpus = list(range(len(names)))

    def job(self):
        try:
            return self.local.job
        except AttributeError:
            self.local.job = Job()
            return self.local.job


PROCESS = None
STARTING = threading.Lock()


def run(sources, files, call, rest):
    """Of Ray's function and methods: the results, or a Failure."""
    global PROCESS
    if PROCESS is None:
        with STARTING:
            if PROCESS is None:
                PROCESS = Process(sources, files)
    return Call(PROCESS, files, call, list(rest)).run()


class Call:
    def __init__(self, process, files, call, rest):
        self.process, self.session, self.job, self.call, self.rest = process, process.session, process.job(), call, rest
        self.content, self.flags, self.num_returns, self.direct, self.nested, _, _ = CALL_HEAD.unpack_from(call)
        if rest and isinstance(rest[-1], dict):
            files = files | rest.pop()["files"]
        if self.content not in process.loaded:
            process.load(self.content, files)
        self.kept, self.inner = [], []

    def take(self, job):
        """Arguments that are not in the call itself."""
        values = self.rest[:self.direct]
        large = self.rest.pop()[0] if self.flags & HAS_LARGE else None
        if self.nested:
            self.keep_inner(*self.rest[self.direct])
        count = len(values)
        pointers, sizes, tokens = (ctypes.c_char_p * (count or 1))(), (ctypes.c_uint64 * (count or 1))(), (ctypes.c_uint64 * (count + 1))()
        addresses = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
        if large is not None:
            job.large, job.large_bytes, tokens[0] = address_of(large), memoryview(large).nbytes, self.session.token(large)
        for i, value in enumerate(values):
            data = value
            if isinstance(value, tuple):
                data = value[0]
                self.keep_inner(value[1], value[2])
            if isinstance(data, bytes):
                pointers[i], sizes[i] = data, len(data)
            else:
                addresses[i], sizes[i], tokens[i + 1] = address_of(data), memoryview(data).nbytes, self.session.token(data)
        job.values, job.value_bytes, job.tokens = ctypes.addressof(pointers), ctypes.addressof(sizes), ctypes.addressof(tokens)
        job.value_count = count
        self.kept = [pointers, sizes, tokens, values, large]

    def keep_inner(self, ids, things):
        for id, thing in zip(ids, things):
            self.session.keep(id, thing)
            self.inner.append(id)

    def run(self):
        job, before = self.job, os.environ.get(MASK)
        job.call, job.call_bytes = self.call, len(self.call)
        if self.rest or job.value_count or self.flags & HAS_LARGE:
            self.take(job)
        elif not job.tokens:
            self.take(job)
        if self.flags & HAS_GPUS:
            self.process.know_gpus()
        elif self.flags & HIDES_GPUS:
            os.environ[MASK] = ""
        gpus = self.process.gpus
        numbers = (ctypes.c_int32 * max(1, len(gpus)))(*gpus)
        job.gpus, job.gpu_count = ctypes.addressof(numbers), len(gpus)
        try:
            return self.run_job(job)
        finally:
            for id in self.inner:
                self.session.drop(id)
            if self.flags & HIDES_GPUS and not self.flags & MAKES_ACTOR:
                os.environ.pop(MASK, None)
                if before is not None:
                    os.environ[MASK] = before

    def run_job(self, job):
        self.session.cancelled.now, self.process.local.runs = False, True
        try:
            self.process.library.bti_ray_run(ctypes.addressof(job))
        finally:
            self.process.local.runs = False
        if job.status:
            if self.session.cancelled.now:
                raise failure(failures.CANCELLED, failures.WAS_CANCELLED, job.text.decode(errors="surrogateescape"))
            raise failure(job.status, failures.RETURNED, job.text.decode(errors="surrogateescape"))
        if self.flags & MAKES_ACTOR:
            return None
        results = [self.result(job.outputs[i]) for i in range(job.output_count)]
        return results[0] if self.num_returns == 1 else results

    def result(self, output):
        if output.is_room:
            room = type("Room", (ctypes.c_char * output.bytes,), {}).from_address(output.data)
            weakref.finalize(room, self.process.library.bti_ray_free, output.data)
            data = pickle.PickleBuffer(memoryview(room).cast("B"))
        else:
            data = ctypes.string_at(output.data, output.bytes)
        ids = tuple(output.ids[i] for i in range(output.id_count))
        if not ids and not output.is_room:
            return data
        value = self.session.value_of(data, ids)
        for id in ids:
            self.session.drop(id)
        return value
