"""Waits, values, deadlines, and requests about one reference or actor. A part of Session (berth_session.py)."""
import heapq
import itertools
import sys
import threading
import time

import ray

import berth_failures as failures
from berth_failures import failure, reason
from berth_frames import NAMESPACE, NAME_SECONDS, STATUS_SECONDS, TASK, Entry


class Results:
    """Those about results."""

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
                entry.failed, entry.done = reason(error, entry.ended, entry.fate.killed), True

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
            ready = set(ray.wait([entry.thing for entry in more], num_returns=len(more), timeout=0)[0])  # and here
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

    def add_deadline(self, entries, p):
        """Of the results of a call."""
        until = time.monotonic() + p.deadline
        for entry in entries:
            entry.deadline = until
        with self.lock:
            if not self.deadlines:
                threading.Thread(target=self.watch_deadlines, daemon=True).start()
            heapq.heappush(self.deadlines, (until, next(self.numbers), entries, p))
            self.deadline_added.notify()

    def pass_deadlines(self):
        """Cancels what is late."""
        late = []
        with self.lock:
            while self.deadlines and self.deadlines[0][0] <= time.monotonic():
                late.append(heapq.heappop(self.deadlines))
        for _, _, entries, p in late:
            try:
                self.pass_deadline([entry for entry in entries if not entry.done], p)
            except Exception as error:
                print(f"berth: a task whose deadline has passed was not ended: {error}", file=sys.stderr)

    def pass_deadline(self, entries, p):
        if not entries or ray.wait([entries[0].thing], timeout=0)[0]:
            return
        with self.lock:
            for entry in [entry for entry in entries if not entry.done]:
                entry.done = True
                entry.failed = failures.DEADLINE_EXCEEDED, failures.DEADLINE, f"its deadline has passed: {p.deadline:g} seconds (.deadline_seconds)"
        ray.cancel(entries[0].thing, force=p.kind == TASK, recursive=False)

    def watch_deadlines(self):
        while True:
            self.pass_deadlines()
            with self.lock:
                if not self.deadlines:
                    return
                self.deadline_added.wait(max(0, self.deadlines[0][0] - time.monotonic()))

    # --- about one ---

    def cancel(self, request, reader):
        id, how = reader.read("QI")
        entry = self.entry(id)

        def work():
            if entry.method and how & 1:
                raise failure(failures.INVALID_ARGUMENT, failures.REFUSED, "a method cannot be ended by force: bt_actor_kill ends its actor")
            if entry.thing is not None and not entry.done:
                entry.ended = entry.ended or bool(how & 1)
                ray.cancel(entry.thing, force=bool(how & 1), recursive=bool(how & 2))
            self.answer(request)

        return self.guarded(request, work)

    def kill(self, request, reader):
        entry = self.entry(reader.read("QI")[0])

        def work():
            if entry.thing is not None:
                entry.fate.killed = True
                ray.kill(entry.thing, no_restart=True)
                self.await_free_name(entry.name)
                entry.done, entry.failed = True, (failures.CANCELLED, failures.WAS_CANCELLED, "the actor was killed (bt_actor_kill)")
            self.answer(request, settled=[entry] if entry.done else ())

        return self.guarded(request, work)

    @staticmethod
    def await_free_name(name):
        """Ray forgets the name of an actor some time after it was killed."""
        until = time.monotonic() + NAME_SECONDS
        while name and time.monotonic() < until:
            try:
                ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return
            time.sleep(0.02)

    def ask_actor(self, entry):
        """Whether an actor has died; one that is busy lives."""
        if entry.done:
            return
        ping = entry.ping = entry.ping or entry.thing.alive.remote()
        try:
            ray.get(ping, timeout=STATUS_SECONDS)
            entry.ping = None
        except ray.exceptions.GetTimeoutError:
            pass
        except ray.exceptions.ActorUnavailableError:
            entry.ping = None
        except Exception as error:
            entry.failed, entry.done = reason(error, False, entry.fate.killed), True

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
                known = next((e for e in list(self.table.values()) if e.thing is not None and e.thing == actor), None)
                if known is None:
                    self.table[id] = known = Entry(id, actor, 0)
            self.answer(request, number=known.id)

        return self.guarded(request, work)
