"""What the nodes of the cluster have: checks of what calls ask for, groups, views. A part of Session (berth_session.py)."""
import json
import math
import os
import threading
import time

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

import berth_failures as failures
from berth_failures import failure
from berth_frames import ACTOR, METHOD, STRATEGIES, Entry, Group


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


class Requests:
    """Those about the cluster."""

    def needs(self, p):
        """Amounts that a call of it takes on a node."""
        cpus = p.cpus if not math.isnan(p.cpus) else 0 if p.kind == METHOD else 1
        needs = {"CPU": cpus, "GPU": 0 if math.isnan(p.gpus) else p.gpus} | p.resources
        return {name: need for name, need in needs.items() if need}

    def placement(self, p, options):
        group = self.entry(p.group).group
        bundles = group.placement.bundle_specs
        if not 0 <= p.bundle < len(bundles):
            raise failure(failures.OUT_OF_RANGE, failures.REFUSED, f"bundle {p.bundle} of a group of {len(bundles)}")
        bundle = bundles[p.bundle]
        if math.isnan(p.cpus) and not bundle.get("CPU"):
            options["num_cpus"] = 0
        needs = self.needs(p) | ({"CPU": 0} if options.get("num_cpus") == 0 else {})
        for name, need in needs.items():
            if need > bundle.get(name, 0):
                raise failure(failures.RESOURCE_EXHAUSTED, failures.REFUSED,
                              f"{p.function} asks for {amount(need)} {name}; its bundle has {amount(bundle.get(name, 0))}")
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
