#!/usr/bin/env python3
"""The bridge between a program of berth and Ray: bridge.py SOCKET PID. Frames come by the socket (file SOCKET), whose other end process PID has; the bridge ends
with either."""
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = (2, 50)  # of Ray
INSTALL = 'pip install "ray>=2.50"'
UNIMPLEMENTED, NOT_FOUND, UNAVAILABLE, INVALID_ARGUMENT, RESOURCE_EXHAUSTED = 12, 5, 14, 3, 8
START, STOP = 2, 18
PIECE = 1 << 18
LEAST_STORE = 80 << 20  # Ray refuses less
SHUTDOWN_SECONDS = 8
WORKER_TEXTS = ["berth_failures", "berth_files", "berth_frames", "berth_cluster", "berth_results", "berth_session", "berth_worker"]


class Wrong(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def import_ray():
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise Wrong(UNAVAILABLE, f"{sys.executable} cannot import Ray ({error}): {INSTALL}; BERTH_PYTHON names a Python that has it") from None
    version = getattr(ray, "__version__", "0")
    parts = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if tuple(parts) < LEAST:
        raise Wrong(UNIMPLEMENTED, f"Ray {version} of {sys.executable} is too old: {INSTALL}")
    return ray


def connect(ray, address, cpus, gpus, store, resources):
    import logging
    has_cpus, options = cpus == cpus, {}
    for name in {"memory", "object_store_memory"} & set(resources):
        raise Wrong(INVALID_ARGUMENT, f'resource "{name}" is one of Ray itself, in bytes: give yours another name')
    if address == "local":
        options = {"num_gpus": gpus if gpus >= 0 else None, "resources": resources or None, "object_store_memory": max(store, LEAST_STORE) if store else None,
                   "include_dashboard": False}
        if has_cpus:
            options["num_cpus"] = int(cpus) if cpus == int(cpus) else cpus
    try:
        ray.init(address=address, namespace="berth", logging_level=logging.ERROR, log_to_driver=True, **options)
    except ConnectionError as error:
        mend = "start one (ray start --head), name it (.address = \"host:port\"), or let the program have its own (.address = \"local\")"
        raise Wrong(UNAVAILABLE, f'there is no Ray cluster at "{address}": {first_line(error)}; {mend}') from None
    except Exception as error:
        raise Wrong(UNAVAILABLE, f'Ray at "{address}" cannot be used: {type(error).__name__}: {first_line(error)}') from None
    if address == "local":
        return
    have = ray.cluster_resources()
    for name, need in {"CPU": cpus if has_cpus else 0, "GPU": max(gpus, 0), **resources}.items():
        if need > have.get(name, 0):
            raise Wrong(RESOURCE_EXHAUSTED, f"the program asks for {need:g} {name}; the cluster has {have.get(name, 0):g}")


def first_line(error):
    return (str(error).strip().split("\n") or [""])[0]


class Output:
    """Standard output, which Ray writes what functions print to; its own notes ("(raylet) ...") go to standard error."""

    def __init__(self):
        self.out, self.is_note = sys.stdout, False

    def write(self, text):
        if text.strip():  # print writes the end of the line by itself
            self.is_note = text.lstrip().startswith(("(raylet", "(autoscaler", "(gcs_server"))
        return (sys.stderr if self.is_note else self.out).write(text)

    def __getattr__(self, name):
        return getattr(self.out, name)


class Workers:
    """Threads for what may block, as many as that takes at once."""

    def __init__(self):
        self.work, self.idle, self.lock = queue.SimpleQueue(), 0, threading.Lock()

    def run(self, task):
        with self.lock:
            start = self.idle == 0
            self.idle -= not start
        if start:
            threading.Thread(target=self.serve, args=(task,), daemon=True).start()
        else:
            self.work.put(task)

    def serve(self, task):
        while True:
            task()
            task = None  # it keeps what it was about
            with self.lock:
                self.idle += 1
            task = self.work.get()


class Link:
    """The socket."""

    def __init__(self, file, parent):
        self.socket = socket.socket(fileno=file)
        self.parent = parent
        try:
            self.life = os.pidfd_open(parent)
        except OSError:
            end_now()
        self.sending = threading.Lock()
        self.poll = select.poll()
        self.poll.register(self.socket, select.POLLIN)
        self.poll.register(self.life, select.POLLIN)

    def send(self, frame):
        try:
            with self.sending:
                self.socket.sendall(frame)
        except OSError:
            end_now()

    def frames(self):
        """Those that come, until the program is gone."""
        got = bytearray()
        while True:
            ready = self.poll.poll()
            if any(file == self.life for file, _ in ready):
                return
            try:
                piece = self.socket.recv(PIECE)
            except OSError:
                return
            if not piece:
                return
            got += piece
            at = 0
            while len(got) - at >= 4:
                (size,) = struct.unpack_from("<I", got, at)
                if len(got) - at < 4 + size:
                    break
                yield bytes(got[at:at + 4 + size])
                at += 4 + size
            del got[:at]


def end_now():
    os._exit(0)


def make_session(link, ray, program):
    import berth_files
    import program as programs
    from berth_session import Session

    class Bridge(Session):
        """Large values pass by files in memory, which both sides open by their numbers in the other process."""

        def open_large(self, number, size):
            import mmap
            file = os.open(f"/proc/{link.parent}/fd/{number}", os.O_RDWR)
            try:
                return memoryview(mmap.mmap(file, size, mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)))
            finally:
                os.close(file)

        def show(self, data):
            view, file = memoryview(data).cast("B"), os.memfd_create("berth-value")
            at = 0
            while at < view.nbytes:
                at += os.write(file, view[at:at + (1 << 30)])
            return file

        def unmap(self, number):
            os.close(number)

    def open_program():
        try:
            return program, programs.openable(program, library)
        except programs.Refused as error:
            raise berth_files.failure(berth_files.failures.FAILED_PRECONDITION, berth_files.failures.REFUSED, str(error)) from None

    library = "libberth.so.1"
    session = Bridge(link.send)
    session.sources = [(name, berth_files.read(os.path.join(HERE, name + ".py")).decode()) for name in WORKER_TEXTS]
    session.files = berth_files.Files(open_program=open_program)
    path = os.path.join(os.path.dirname(HERE), library)
    session.files.known["flags"] = os.environ.get("BERTH_FLAGS", "")
    session.files.add("berth", os.path.realpath(path), berth_files.read(path))
    return session


def start(link, frame):
    """The first frame; None: refused."""
    import berth_frames
    _, _, request = berth_frames.HEAD.unpack_from(frame)
    reader = berth_frames.Reader(frame, berth_frames.HEAD.size)
    address, cpus, gpus, store = reader.text(), reader.read("d"), reader.read("i"), reader.read("Q")
    resources, program = reader.resources(), reader.text()
    import ray
    connect(ray, address, cpus, gpus, store, resources)
    session = make_session(link, ray, program)
    session.answer(request)
    return session


def refuse(link, frame, status, text):
    request, said = frame[8:16], text.encode()
    body = struct.pack("<iIQdI", status, 2, 0, 0.0, len(said)) + said + struct.pack("<I", 0)
    link.send(struct.pack("<II", 12 + len(body), 1) + request + body)


def begin(link, frame):
    try:
        import_ray()
        return start(link, frame)
    except Wrong as wrong:
        refuse(link, frame, wrong.status, str(wrong))
    except Exception as error:
        refuse(link, frame, UNAVAILABLE, f"the bridge to Ray failed: {type(error).__name__}: {first_line(error)}")
    return None


def shut_down():
    """Also when Ray hangs."""
    late = threading.Timer(SHUTDOWN_SECONDS, end_now)
    late.daemon = True
    late.start()
    ray = sys.modules.get("ray")
    if ray is not None and hasattr(ray, "shutdown"):
        ray.shutdown()


def main():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout = Output()
    link, session, workers = Link(int(sys.argv[1]), int(sys.argv[2])), None, Workers()
    for frame in link.frames():
        if session is None:
            session = begin(link, frame)
            if session is None:
                break
            continue
        if frame[4] == STOP:
            shut_down()
            session.answer(struct.unpack_from("<Q", frame, 8)[0])
            end_now()
        left = session.handle(frame)
        if left:
            workers.run(left)
    shut_down()
    end_now()


if __name__ == "__main__":
    main()
