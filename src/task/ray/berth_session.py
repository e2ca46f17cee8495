"""What a process asks of Ray, frame by frame (frame.h): the same in the bridge, which berth's programs start, and in workers.

References, actors and groups have ids, which berth gives them. A value is its packed bytes, or, if it is large or refers to others, (bytes, ids, Ray's objects for
them). Only the public interface of Ray is used.
"""
import heapq
import itertools
import json
import math
import os
import pickle
import struct
import threading
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import berth_failures as failures
from berth_failures import BY_STATUS, failure, reason

(ANSWER, START, PROFILE, CALL, PUT, WAIT, FETCH, CANCEL, KILL, FIND, GROUP, RESOURCE, VIEW, STATUS, HOLD, RELEASE, UNMAP, STOP,
 CANCELLED) = range(1, 20)
TASK, ACTOR, METHOD = range(3)
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

    return run, Actor
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


class Entry:
    """What an id stands for."""

    __slots__ = ("id", "thing", "count", "failed", "value", "done", "inner", "others", "deadline", "cancelled", "killed", "method", "group",
                 "contents", "ping")

    def __init__(self, id, thing, count=1):
        self.id, self.thing, self.count = id, thing, count
        self.failed = self.value = self.deadline = self.group = self.contents = self.ping = None
        self.done = self.cancelled = self.killed = self.method = False
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


def amount(number):
    return f"{number:g}"


class Cluster:
    """What the nodes have."""

    def __init__(self):
        self.nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]

    def total(self, name):
        return sum(node.get(name, 0) for node in self.nodes)

    def accelerator(self, words, gpus):
        """Ray's name of a type of GPUs."""
        if not gpus:
            raise failure(failures.INVALID_ARGUMENT, failures.REFUSED, f'accelerator is "{words}", but no GPU is asked for (num_gpus)')
        kinds = {name.split(":", 1)[1] for node in self.nodes for name in node if name.startswith("accelerator_type:")}
        wanted = [kind for kind in kinds if set(words.lower().split()) <= set(kind.lower().replace("-", " ").split()) | {"nvidia", kind.lower()}]
        if not wanted:
            raise failure(failures.RESOURCE_EXHAUSTED, failures.REFUSED, f'asks for {amount(gpus)} GPU of type "{words}"; the runtime has 0')
        return sorted(wanted)[0]

    def check(self, who, needs, at_once=True):
        """At once, as on one machine: more than there is; with both numbers."""
        for name, need in needs.items():
            if name in ("memory", "object_store_memory"):
                raise failure(failures.INVALID_ARGUMENT, failures.REFUSED, f'resource "{name}" is one of Ray itself, in bytes: give yours another name')
            if name not in ("CPU", "GPU") and not self.total(name):
                raise failure(failures.NOT_FOUND, failures.REFUSED, f'the runtime has no resource "{name}" (bt_runtime_init, .resources)')
            if need > self.total(name):
                raise failure(failures.RESOURCE_EXHAUSTED, failures.REFUSED,
                              f"{who} asks for {amount(need)} {name}; the runtime has {amount(self.total(name))}")
        if at_once and not any(all(node.get(name, 0) >= need for name, need in needs.items()) for node in self.nodes):
            most = {name: max(node.get(name, 0) for node in self.nodes) for name in needs}
            raise failure(failures.RESOURCE_EXHAUSTED, failures.REFUSED,
                          f"{who} asks for {', '.join(f'{amount(n)} {name}' for name, n in needs.items())} on one node; "
                          f"the most that a node has: {', '.join(f'{amount(n)} {name}' for name, n in most.items())}")


class Session:
    """`send`: takes an answer's frame. The side (bridge or worker) says how large values pass: `open_large`, `show`, `unmap`."""

    def __init__(self, send):
        self.send = send
        self.table = {}
        self.lock = threading.RLock()
        self.profiles = {}
        self.makers = {}
        self.sources = self.files = None  # (name, text) of this text; what calls need on other nodes (berth_files.py)
        self.deadlines, self.deadline_added = [], threading.Condition(self.lock)
        self.numbers = itertools.count()
        self.begun = time.time()
        self.handlers = {PROFILE: self.profile, CALL: self.call, PUT: self.put, WAIT: self.wait, FETCH: self.fetch, CANCEL: self.cancel,
                         KILL: self.kill, FIND: self.find, GROUP: self.group, RESOURCE: self.resource, VIEW: self.view,
                         STATUS: self.status, HOLD: self.hold, RELEASE: self.release, UNMAP: self.unmap_all}

    # --- frames ---

    def answer(self, request, status=0, kind=0, number=0, real=0.0, text="", settled=()):
        if not request:
            return
        said = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
        parts = [struct.pack("<iIQdI", status, kind, number, real, len(said)), said, struct.pack("<I", len(settled))]
        for entry in settled:
            parts += self.encode(entry)
        size = HEAD.size - 4 + sum(map(len, parts))
        self.send(b"".join([HEAD.pack(size, ANSWER, request), *parts]))

    @staticmethod
    def encode(entry):
        if entry.failed:
            status, kind, text = entry.failed
            said = text.encode(errors="surrogateescape")[:1 << 16]
            return SETTLED.pack(entry.id, 3, status, kind, 0, len(said)), said
        data = entry.value[0] if isinstance(entry.value, tuple) else entry.value
        size = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
        if size > LARGE:
            return SETTLED.pack(entry.id, 2, 0, 0, size, 0), b""
        return SETTLED.pack(entry.id, 1, 0, 0, size, size), bytes(data)

    def handle(self, frame):
        """None, or what is left to be done, which may block."""
        _, kind, request = HEAD.unpack_from(frame)
        try:
            return self.handlers[kind](request, Reader(frame, HEAD.size))
        except Exception as error:
            self.answer(request, *self.refused(error))
            return None

    @staticmethod
    def refused(error):
        status, kind, text = reason(error)
        return status, kind, 0, 0.0, text

    def guarded(self, request, work):
        """The same for what is left to be done."""

        def run():
            try:
                work()
            except Exception as error:
                self.answer(request, *self.refused(error))

        return run

    # --- the table ---

    def entry(self, id):
        found = self.table.get(id)
        if found is None:
            found = Entry(id, None)
            found.done, found.failed = True, (failures.INTERNAL, failures.REFUSED, "a value refers to nothing: it is damaged")
        return found

    def keep(self, id, thing):
        with self.lock:
            known = self.table.get(id)
            if known:
                known.count += 1
            else:
                self.table[id] = Entry(id, thing)

    def drop(self, id):
        with self.lock:
            entry = self.table.get(id)
            if entry is None:
                return
            entry.count -= 1
            if entry.count:
                return
            del self.table[id]
        for other in itertools.chain(entry.inner, entry.others):
            self.drop(other)
        if entry.group:
            self.leave_group(entry)

    def hold(self, request, reader):
        id = reader.read("Q")
        with self.lock:
            known = self.table.get(id)
            if known:
                known.count += 1
            else:
                self.table[id] = self.entry(id)

    def release(self, request, reader):
        for (id,) in struct.iter_unpack("<Q", reader.frame[reader.at:]):
            self.drop(id)

    def unmap_all(self, request, reader):
        for (number,) in struct.iter_unpack("<Q", reader.frame[reader.at:]):
            self.unmap(number)

    def thing_of(self, entry):
        """Ray's object for it, also of a call that was refused."""
        if entry.thing is None:
            entry.thing = self.maker(TASK, 0, 0, "refused", files=()).options(num_cpus=0, max_retries=0).remote(json.dumps(entry.failed))
        return entry.thing

    def value_of(self, data, ids):
        """A value with what it refers to."""
        return (data, ids, [self.thing_of(self.entry(id)) for id in ids])

    # --- profiles ---

    def needs(self, p):
        """Amounts that a call of it takes on a node."""
        cpus = p.cpus if not math.isnan(p.cpus) else 0 if p.kind == METHOD else 1
        needs = {"CPU": cpus, "GPU": 0 if math.isnan(p.gpus) else p.gpus} | p.resources
        return {name: need for name, need in needs.items() if need}

    def maker(self, kind, content, max_calls, function, files=None):
        """Ray's function, or class, for functions of a module; made once."""
        key = (kind, content, max_calls, function if kind == ACTOR else "")
        if key not in self.makers:
            scope = {"__name__": "berth_entry"}
            exec(ENTRY, scope)
            run, actor = scope["make"](self.sources, self.files.of(content) if files is None else files)
            if kind == ACTOR:
                actor.__name__ = actor.__qualname__ = function
                self.makers[key] = ray.remote(actor)
            else:
                self.makers[key] = ray.remote(max_calls=max_calls)(run) if max_calls else ray.remote(run)
        return self.makers[key]

    def placement(self, p, options):
        group = self.entry(p.group).group
        bundles = group.placement.bundle_specs
        if not 0 <= p.bundle < len(bundles):
            raise failure(failures.OUT_OF_RANGE, failures.REFUSED, f"bundle {p.bundle} of a group that has {len(bundles)}")
        bundle = bundles[p.bundle]
        if math.isnan(p.cpus) and not bundle.get("CPU"):
            options["num_cpus"] = 0
        needs = self.needs(p) | ({"CPU": 0} if options.get("num_cpus") == 0 else {})
        for name, need in needs.items():
            if need > bundle.get(name, 0):
                raise failure(failures.RESOURCE_EXHAUSTED, failures.REFUSED, f"{p.function} asks for {amount(need)} {name}; bundle {p.bundle} "
                              f"of its group has {amount(bundle.get(name, 0))}")
        options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(group.placement, p.bundle)

    def options(self, p):
        options = {"num_cpus": p.cpus} if not math.isnan(p.cpus) else {"num_cpus": 0} if p.kind == ACTOR else {}
        if not math.isnan(p.gpus):
            options["num_gpus"] = p.gpus
        if p.resources:
            options["resources"] = p.resources
        if p.group:
            self.placement(p, options)
        else:
            cluster = Cluster()
            cluster.check(p.function, self.needs(p))
            if p.accelerator:
                options["accelerator_type"] = cluster.accelerator(p.accelerator, options.get("num_gpus", 0))
        return options

    def profile(self, request, reader):
        number = reader.read("I")
        p = Profile(reader)
        return self.guarded(request, lambda: self.make_profile(request, number, p))

    def make_profile(self, request, number, p):
        self.files.learn(p.module)
        if p.kind == METHOD:
            if p.num_returns > 1:
                p.method["num_returns"] = p.num_returns
            if p.retries or p.retry_mask:
                p.method |= p.retry("max_task_retries")
        else:
            options = self.options(p)
            has_gpus = bool(options.get("num_gpus"))
            self.files.need(p.content)
            maker = self.maker(p.kind, p.content, 0 if p.kind == ACTOR else p.max_calls or (1 if has_gpus else 0), p.function)
            if p.kind == ACTOR:
                options |= {"max_restarts": -1 if p.restarts == NO_LIMIT else p.restarts, "max_concurrency": p.concurrency, "namespace": NAMESPACE}
                options |= {"name": p.name} if p.name else {}
                options |= {"lifetime": "detached"} if p.detached else {}
            else:
                options |= p.retry("max_retries") | {"num_returns": p.num_returns, "name": p.function}
            p.make = maker.options(**options)
        with self.lock:
            self.profiles[number] = p
            if len(self.profiles) > MOST_PROFILES:
                del self.profiles[next(iter(self.profiles))]
        self.answer(request)

    # --- calls ---

    def call(self, request, reader):
        number, results, direct, nested, actor, large, size = CALL_FRAME.unpack_from(reader.frame, reader.at)
        reader.at += CALL_FRAME.size
        ids, direct, nested = reader.ids(results), reader.ids(direct), reader.ids(nested)
        p = self.profiles[number]
        entry = Entry(ids[0], None)
        self.table[entry.id] = entry
        entry.method = p.kind == METHOD
        if len(ids) > 1:
            entry.others = ids[1:]
        try:
            self.make(p, entry, ids, bytes(reader.frame[reader.at:]), direct, nested, actor, large, size)
        except Exception as error:
            self.refuse(entry, ids, *reason(error))
            if request:
                raise
        self.answer(request)

    def refuse(self, entry, ids, *failed):
        for id in ids[1:]:
            self.table[id] = Entry(id, None)
        for id in ids:
            self.table[id].done, self.table[id].failed = True, failed

    def make(self, p, entry, ids, call, direct, nested, actor, large, size):
        rest = []
        if direct:
            for id in direct:
                argument = self.entry(id)
                if argument.failed and (argument.thing is None or argument.deadline):
                    return self.refuse(entry, ids, *argument.failed)
                rest.append(argument.thing)
        if nested:
            rest.append((nested, [self.thing_of(self.entry(id)) for id in nested]))
        if size:
            rest.append((pickle.PickleBuffer(self.open_large(large, size)),))
        if p.kind == METHOD:
            made = self.make_method(p, entry, self.entry(actor), call, rest)
        else:
            made = p.make.remote(call, *rest)
        if p.group:
            self.join_group(p, entry, made)
        if p.kind == ACTOR:
            entry.contents = {0, p.content}
        if len(ids) > 1:
            for id, result in zip(ids[1:], made[1:]):
                self.table[id] = Entry(id, result)
            made = made[0]
        entry.thing = made
        if p.deadline > 0:
            self.add_deadline(entry, p)

    def make_method(self, p, entry, actor, call, rest):
        if actor.failed:
            raise failure(*actor.failed)
        if not actor.contents or p.content not in actor.contents:
            self.files.need(p.content)
            rest.append({"files": self.files.of(p.content)})
        entry.killed = actor
        method = actor.thing.call
        made = (method.options(**p.method) if p.method else method).remote(call, *rest)
        if actor.group:
            actor.group.note(made[0] if isinstance(made, list) else made)
        return made

    def put(self, request, reader):
        id, nested, large, size = reader.read("QIQQ")
        ids = reader.ids(nested)
        data = pickle.PickleBuffer(self.open_large(large, size)) if size else bytes(reader.frame[reader.at:])
        entry = Entry(id, None)
        self.table[id] = entry
        try:
            entry.thing = ray.put(self.value_of(data, ids) if ids or size else data)
        except Exception as error:
            self.refuse(entry, (id,), *reason(error))
            if request:
                raise
        for inner in ids:
            self.hold(0, Reader(struct.pack("<Q", inner)))
        entry.inner = ids
        self.answer(request)

    # --- results ---

    def fill(self, entry, value):
        with self.lock:
            if entry.done:
                return
            entry.value, entry.done = value, True
            if isinstance(value, tuple) and value[1]:
                for id, thing in zip(value[1], value[2]):
                    self.keep(id, thing)
                entry.inner = tuple(entry.inner) + tuple(value[1])

    def fail(self, entry, error):
        with self.lock:
            if not entry.done:
                killed = entry.killed.killed if isinstance(entry.killed, Entry) else False
                entry.failed, entry.done = reason(error, entry.cancelled, killed), True

    def resolve(self, entries):
        """Of those that are ready."""
        todo = [entry for entry in entries if not entry.done]
        try:
            for entry, value in zip(todo, ray.get([entry.thing for entry in todo])):
                self.fill(entry, value)
        except Exception:
            for entry in todo:
                if entry.done:
                    continue
                try:
                    self.fill(entry, ray.get(entry.thing))
                except Exception as error:
                    self.fail(entry, error)

    def wait(self, request, reader):
        count, wanted, seconds, ahead = reader.read("IIdI")
        entries = [self.entry(id) for id in reader.ids(count)]
        more = [entry for entry in map(self.table.get, reader.ids(ahead)) if entry is not None and not entry.done and entry.thing is not None]
        return self.guarded(request, lambda: self.wait_for(request, entries, wanted, seconds, more))

    def wait_for(self, request, entries, wanted, seconds, more):
        until = time.monotonic() + seconds if seconds >= 0 else None
        while True:
            self.look(entries, wanted, until)
            done = sum(entry.done for entry in entries)
            if done >= wanted or (until is not None and time.monotonic() >= until):
                break
        if more:
            ready = set(ray.wait([entry.thing for entry in more], num_returns=len(more), timeout=0, fetch_local=False)[0])
            self.resolve([entry for entry in more if entry.thing in ready])
        self.answer(request, settled=[entry for entry in itertools.chain(entries, more) if entry.done])

    def look(self, entries, wanted, until):
        """Waits until as many are done, a deadline of one passes, or the time is over."""
        self.pass_deadlines()
        pending = {entry.thing: entry for entry in entries if not entry.done}
        wanted -= len(entries) - len([entry for entry in entries if not entry.done])
        if wanted <= 0 or not pending:
            return
        limits = [entry.deadline for entry in pending.values() if entry.deadline] + ([until] if until is not None else [])
        timeout = max(0, min(limits) - time.monotonic()) if limits else None
        first = next(iter(pending.values()))
        if first.group and first.group.placement is first.thing:
            if first.thing.wait(timeout_seconds=timeout if timeout is not None else 1e9):
                first.done, first.value = True, b""
            return
        if isinstance(first.thing, ray.actor.ActorHandle):
            time.sleep(min(timeout if timeout is not None else STATUS_SECONDS, STATUS_SECONDS))
            return self.ask_actor(first)
        if len(pending) == 1:
            try:
                self.fill(first, ray.get(first.thing, timeout=timeout))
            except ray.exceptions.GetTimeoutError:
                pass
            except Exception as error:
                self.fail(first, error)
            return
        things = list(pending)
        ray.wait(things, num_returns=min(wanted, len(things)), timeout=timeout)
        ready = ray.wait(things, num_returns=len(things), timeout=0)[0]
        self.resolve([pending[thing] for thing in ready])

    def fetch(self, request, reader):
        entry = self.entry(reader.read("Q"))

        def work():
            if entry.failed:
                raise failure(*entry.failed)
            data = entry.value[0] if isinstance(entry.value, tuple) else entry.value
            self.answer(request, number=self.show(data), real=float(memoryview(data).nbytes))

        return self.guarded(request, work)

    # --- deadlines ---

    def add_deadline(self, entry, p):
        entry.deadline = time.monotonic() + p.deadline
        with self.lock:
            if not self.deadlines:
                threading.Thread(target=self.watch_deadlines, daemon=True).start()
            heapq.heappush(self.deadlines, (entry.deadline, next(self.numbers), entry, p))
            self.deadline_added.notify()

    def pass_deadlines(self):
        """Cancels what is late; seconds until the next is."""
        late = []
        with self.lock:
            while self.deadlines and self.deadlines[0][0] <= time.monotonic():
                late.append(heapq.heappop(self.deadlines))
            left = self.deadlines[0][0] - time.monotonic() if self.deadlines else None
        for _, _, entry, p in late:
            if entry.done or ray.wait([entry.thing], timeout=0)[0]:
                continue
            with self.lock:
                entry.done = True
                entry.failed = failures.DEADLINE_EXCEEDED, failures.DEADLINE, f"not done within {p.deadline:g} seconds (.deadline_seconds)"
            ray.cancel(entry.thing, force=p.kind == TASK, recursive=False)
        return left

    def watch_deadlines(self):
        while True:
            left = self.pass_deadlines()
            with self.lock:
                if left is None and not self.deadlines:
                    return
                self.deadline_added.wait(left)

    # --- about one ---

    def cancel(self, request, reader):
        id, how = reader.read("QI")
        entry = self.entry(id)

        def work():
            if entry.method and how & 1:
                raise failure(failures.INVALID_ARGUMENT, failures.REFUSED, "a method cannot be ended by force: bt_actor_kill ends its actor")
            if entry.thing is not None and not entry.done:
                entry.cancelled = True
                ray.cancel(entry.thing, force=bool(how & 1), recursive=bool(how & 2))
            self.answer(request)

        return self.guarded(request, work)

    def kill(self, request, reader):
        entry = self.entry(reader.read("QI")[0])

        def work():
            if entry.thing is not None:
                entry.killed = True
                ray.kill(entry.thing, no_restart=True)
                entry.done, entry.failed = True, (failures.CANCELLED, failures.WAS_CANCELLED, "the actor was killed (bt_actor_kill)")
            self.answer(request, settled=[entry] if entry.done else ())

        return self.guarded(request, work)

    def ask_actor(self, entry):
        """Whether an actor has died; one that is busy lives."""
        if entry.done:
            return
        entry.ping = entry.ping or entry.thing.alive.remote()
        try:
            ray.get(entry.ping, timeout=STATUS_SECONDS)
            entry.ping = None
        except ray.exceptions.GetTimeoutError:
            pass
        except ray.exceptions.ActorUnavailableError:
            entry.ping = None
        except Exception as error:
            entry.failed, entry.done = reason(error, False, entry.killed), True

    def status(self, request, reader):
        entry = self.entry(reader.read("QI")[0])

        def work():
            self.ask_actor(entry)
            self.answer(request, settled=[entry] if entry.done else ())

        return self.guarded(request, work)

    def find(self, request, reader):
        name = reader.text()

        def work():
            try:
                actor = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                raise failure(failures.NOT_FOUND, failures.REFUSED, f'there is no actor "{name}"') from None
            id = int.from_bytes(bytes.fromhex(actor._actor_id.hex())[:8], "little") or 1
            with self.lock:
                known = next((e for e in self.table.values() if e.thing is not None and e.thing == actor), None)
                if known is None:
                    self.table[id] = known = Entry(id, actor, 0)
            self.answer(request, number=known.id)

        return self.guarded(request, work)

    # --- groups ---

    def group(self, request, reader):
        id, strategy, count = reader.read("QII")
        bundles = []
        for _ in range(count):
            cpus, gpus = reader.read("dd")
            accelerator, more = reader.text(), reader.resources()
            bundle = {"CPU": 0 if math.isnan(cpus) else cpus, "GPU": 0 if math.isnan(gpus) else gpus} | more
            bundles.append(({name: need for name, need in bundle.items() if need}, accelerator))
        return self.guarded(request, lambda: self.make_group(request, id, STRATEGIES[strategy], bundles))

    def make_group(self, request, id, strategy, bundles):
        cluster = Cluster()
        for bundle, accelerator in bundles:
            cluster.check("bt_group_new", bundle)
            if accelerator:
                bundle[f"accelerator_type:{cluster.accelerator(accelerator, bundle.get('GPU', 0))}"] = 0.001
            if not bundle:
                raise failure(failures.INVALID_ARGUMENT, failures.REFUSED, "a bundle of a group asks for nothing; Ray reserves only something")
        whole = {}
        for bundle, _ in bundles:
            for name, need in bundle.items():
                whole[name] = whole.get(name, 0) + need
        cluster.check("bt_group_new", whole, at_once=strategy == "STRICT_PACK")
        if strategy == "STRICT_SPREAD" and len(bundles) > len(cluster.nodes):
            raise failure(failures.RESOURCE_EXHAUSTED, failures.REFUSED,
                          f"bt_group_new asks for {len(bundles)} bundles on different nodes; the cluster has {len(cluster.nodes)}")
        entry = Entry(id, placement_group([bundle for bundle, _ in bundles], strategy=strategy))
        entry.group = Group(entry.thing)
        self.table[id] = entry
        self.answer(request)

    def join_group(self, p, entry, made):
        group = self.entry(p.group).group
        if p.kind == ACTOR:
            group.actors += 1
            entry.group = group
        else:
            group.note(made[0] if isinstance(made, list) else made)

    def leave_group(self, entry):
        """The group is removed once it is released, and what runs on it has ended."""
        group = entry.group
        if group.placement is entry.thing:
            group.released = True
        else:
            group.actors -= 1
        if group.released and not group.actors:
            threading.Thread(target=self.remove_group, args=(group,), daemon=True).start()

    @staticmethod
    def remove_group(group):
        if group.results:
            ray.wait(group.results, num_returns=len(group.results), fetch_local=False)
        remove_placement_group(group.placement)

    # --- the cluster ---

    def resource(self, request, reader):
        name, only_free = reader.text(), reader.read("I")

        def work():
            total = ray.cluster_resources()
            found = (ray.available_resources() if only_free else total).get(name, 0.0) if name in total or name in ("CPU", "GPU") else math.nan
            self.answer(request, real=found)

        return self.guarded(request, work)

    def view(self, request, reader):
        what = reader.text()

        def work():
            self.answer(request, text=json.dumps({"traceEvents": ray.timeline()} if what == "timeline" else self.picture()))

        return self.guarded(request, work)

    def picture(self):
        """As docs/tasks-views.md has it, of what this process knows."""
        total, free = ray.cluster_resources(), ray.available_resources()
        names = ["CPU", "GPU", *sorted(name for name in total if ":" not in name and name not in ("CPU", "GPU", "memory", "object_store_memory"))]
        entries = list(self.table.values())
        actors = [e for e in entries if isinstance(e.thing, ray.actor.ActorHandle)]
        return {"pid": os.getppid(), "program": "ray", "nest_pid": os.getpid(), "seconds": time.time() - self.begun, "why": None,
                "resources": [{"name": name, "total": total.get(name, 0), "free": free.get(name, 0)} for name in names],
                "gpus": [], "tasks": {}, "by_function": [], "running": [], "waiting": [],
                "actors": [{"name": "", "function": "", "state": "idle", "pid": 0, "queued": 0, "running": 0} for _ in actors], "groups": [],
                "workers": [], "nodes": [{"id": n["NodeID"], "address": n["NodeManagerAddress"], "alive": n["Alive"],
                                          "resources": n["Resources"]} for n in ray.nodes()],
                "store": {"used_bytes": int(total.get("object_store_memory", 0) - free.get("object_store_memory", 0)),
                          "limit_bytes": int(total.get("object_store_memory", 0)), "memory_bytes": 0, "objects": len(entries),
                          "spilled_bytes": 0, "spilled_objects": 0},
                "recoveries": 0}
