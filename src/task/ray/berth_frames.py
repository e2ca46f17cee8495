"""What passes between berth and Python (frame.h), as Python's values: requests, profiles of calls, what ids stand for; and the text by which Ray's workers begin."""
import struct

import ray

from berth_failures import BY_STATUS

(ANSWER, START, PROFILE, CALL, PUT, WAIT, FETCH, CANCEL, KILL, FIND, GROUP, RESOURCE, VIEW, STATUS, HOLD, RELEASE, UNMAP, STOP,
 CANCELLED) = range(1, 20)
TASK, ACTOR, METHOD, REFUSED = range(4)
LARGE = 128 << 10
NO_LIMIT = 0xFFFFFFFF
MOST_PROFILES = 4096
NAMESPACE = "berth"
HEAD = struct.Struct("<IIQ")
CALL_HEAD = struct.Struct("<QIIIIdd")  # bti_ray_call_head
HIDES_GPUS, MAKES_ACTOR, HAS_LARGE, HAS_GPUS = 1, 2, 4, 8
CALL_FRAME = struct.Struct("<IIIIQQQ")
SETTLED = struct.Struct("<QIiIQI")
STRATEGIES = ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]
NAME_SECONDS = 5
STATUS_SECONDS = 0.3  # how long an actor that is asked whether it lives may take to say so

# Runs in workers, which have only Ray: what is sent along is loaded once a process.
ENTRY = '''
def make(sources, files):
    def load():
        import sys
        import types
        for name, text in sources:
            if name not in sys.modules:
                module = types.ModuleType(name)
                sys.modules[name] = module
                exec(compile(text, name + ".py", "exec"), module.__dict__)
        return sys.modules["berth_worker"]

    def run(call, *rest):
        return load().run(sources, files, call, rest)

    class Actor:
        def __init__(self, call, *rest):
            load().run(sources, files, call, rest)

        def call(self, call, *rest):
            return load().run(sources, files, call, rest)

        def alive(self):
            return True

    def refuse(*failed):
        import sys
        load()
        raise sys.modules["berth_failures"].failure(*failed)

    return run, Actor, refuse
'''


class Reader:
    def __init__(self, frame, at=0):
        self.frame, self.at = frame, at

    def read(self, form):
        values = struct.unpack_from("<" + form, self.frame, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def text(self):
        size = self.read("I")
        self.at += size
        return bytes(self.frame[self.at - size:self.at]).decode(errors="surrogateescape")

    def ids(self, count):
        return self.read(f"{count}Q") if count > 1 else (self.read("Q"),) if count else ()

    def resources(self):
        return {self.text(): self.read("d") for _ in range(self.read("I"))}


class Fate:
    """Of an actor; results of its methods have it too, and do not keep the actor alive."""

    killed = False


class Entry:
    """What an id stands for."""

    __slots__ = ("id", "thing", "count", "failed", "value", "done", "inner", "others", "deadline", "ended", "fate", "method", "group",
                 "contents", "ping", "name")

    def __init__(self, id, thing, count=1):
        self.id, self.thing, self.count = id, thing, count
        self.failed = self.value = self.deadline = self.group = self.contents = self.ping = self.name = None
        self.done = self.ended = self.method = False
        self.fate = Fate()
        self.inner = self.others = ()


class Group:
    def __init__(self, placement):
        self.placement, self.actors, self.results, self.released = placement, 0, [], False

    def note(self, result):
        """A call that runs on it; results that are done are forgotten now and then."""
        self.results.append(result)
        if len(self.results) >= 1000 and not len(self.results) & (len(self.results) - 1):
            self.results = ray.wait(self.results, num_returns=len(self.results), timeout=0, fetch_local=False)[1]


class Profile:
    """What calls of one function with the same options have in common."""

    def __init__(self, reader):
        self.kind = reader.read("I")
        self.module, self.function = reader.text(), reader.text()
        self.cpus, self.gpus = reader.read("dd")
        self.retries, self.restarts, self.retry_mask, self.num_returns, self.concurrency, self.max_calls, self.detached = reader.read("7I")
        self.deadline, self.group, self.bundle = reader.read("dQI")
        self.name, self.accelerator = reader.text(), reader.text()
        self.resources = reader.resources()
        self.content = int(self.module.rsplit("\n", 1)[1][16:], 16) if "\n" in self.module else 0
        self.make = None  # of a task or an actor: Ray's function, or class, with its options
        self.method = {}  # options of a method

    def retry(self, name):
        """Ray's options for retries; `name`: of their number."""
        statuses = [kind for status, kind in BY_STATUS.items() if self.retry_mask >> status & 1]
        options = {name: -1 if self.retries == NO_LIMIT else self.retries}
        return options | {"retry_exceptions": statuses} if statuses else options
