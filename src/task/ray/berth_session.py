"""What a process asks of Ray, frame by frame (frame.h): the same in the bridge, which berth's programs start, and in workers.

References, actors and groups have ids, which berth gives them. A value is its packed bytes, or, if it is large or refers to others, (bytes, ids, Ray's objects for
them). Only the public interface of Ray is used.
"""
import itertools
import pickle
import struct
import threading
import time

import ray

import berth_failures as failures
from berth_cluster import Requests
from berth_failures import failure, reason
from berth_frames import (ACTOR, ANSWER, CALL, CALL_FRAME, CANCEL, ENTRY, FETCH, FIND, GROUP, HEAD, HOLD, KILL, LARGE, METHOD, MOST_PROFILES, NAMESPACE,
                          NO_LIMIT, PROFILE, PUT, REFUSED, RELEASE, RESOURCE, SETTLED, STATUS, UNMAP, VIEW, WAIT, Entry, Profile, Reader)
from berth_results import Results


ANSWER_BYTES = 256 << 20  # of values in one answer


class Session(Results, Requests):
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
        parts, room = [struct.pack("<iIQdI", status, kind, number, real, len(said)), said, struct.pack("<I", len(settled))], ANSWER_BYTES
        for entry in settled:
            parts += self.encode(entry, min(LARGE, room))
            room -= len(parts[-1])
        size = HEAD.size - 4 + sum(map(len, parts))
        self.send(b"".join([HEAD.pack(size, ANSWER, request), *parts]))

    @staticmethod
    def encode(entry, most):
        """A value of more bytes is asked for when it is read."""
        if entry.failed:
            status, kind, text = entry.failed
            said = text.encode(errors="surrogateescape")[:1 << 16]
            return SETTLED.pack(entry.id, 3, status, kind, 0, len(said)), said
        data = entry.value[0] if isinstance(entry.value, tuple) else entry.value
        size = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
        if size > most:
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
        dropped = [id]  # values may refer to each other in long chains
        while dropped:
            with self.lock:
                entry = self.table.get(dropped.pop())
                if entry is None:
                    continue
                entry.count -= 1
                if entry.count:
                    continue
                del self.table[entry.id]
            dropped += itertools.chain(entry.inner, entry.others)
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
            entry.thing = self.maker(REFUSED, 0, 0, "").options(num_cpus=0, max_retries=0).remote(*entry.failed)
        return entry.thing

    def value_of(self, data, ids):
        """A value with what it refers to."""
        return (data, ids, [self.thing_of(self.entry(id)) for id in ids])

    # --- profiles ---

    def maker(self, kind, content, max_calls, function):
        """Ray's function, or class, for functions of a module; made once."""
        key = (kind, content, max_calls, function if kind == ACTOR else "")
        if key not in self.makers:
            scope = {"__name__": "berth_entry"}
            exec(ENTRY, scope)
            run, actor, refuse = scope["make"](self.sources, {} if kind == REFUSED else self.files.of(content))
            if kind == REFUSED:
                self.makers[key] = ray.remote(refuse)
            elif kind == ACTOR:
                actor.__name__ = actor.__qualname__ = function
                self.makers[key] = ray.remote(actor)
            else:
                self.makers[key] = ray.remote(max_calls=max_calls)(run) if max_calls else ray.remote(run)
        return self.makers[key]

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
            entry.contents, entry.name = {0, p.content}, p.name
        if len(ids) > 1:
            for id, result in zip(ids[1:], made[1:]):
                self.table[id] = Entry(id, result)
            made = made[0]
        entry.thing = made
        if p.deadline > 0:
            self.add_deadline([self.table[id] for id in ids], p)

    def make_method(self, p, entry, actor, call, rest):
        if actor.failed:
            raise failure(*actor.failed)
        if not actor.contents or p.content not in actor.contents:
            self.files.need(p.content)
            rest.append({"files": self.files.of(p.content)})
        entry.fate = actor.fate
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
