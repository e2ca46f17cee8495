"""A process of one library: worker.py LIBRARY. Each line of standard input is a JSON object {"row", "peer", "repetition", "file"}:
the row is run once by that peer and answered by {"seconds"} and, when a file of berth's result is given, {"worst", "allowed"}.
With "first" the row is prepared anew and runs without a warm-up: {"first_s", "later_s"} of a call, the least of a few later ones. An object without a row is answered by {"versions", "peers": {peer: [row...]}}, what failed by {"error"}."""
import gc
import importlib
import json
import os
import sys
import time

import numpy

from common import difference

WARM_UP_SECONDS = 0.2


def warm_up(library, row):
    start = time.perf_counter()
    for i in range(20):
        library.wait(row.run(-1 - i))
        if i > 0 and time.perf_counter() - start > WARM_UP_SECONDS:
            return


def measure(library, row, request):
    start = time.perf_counter()
    result = library.wait(row.run(request["repetition"]))
    answer = {"seconds": (time.perf_counter() - start) / row.steps}
    if request.get("file"):
        if row.check:
            result = row.check()
        ours = result if isinstance(result, numpy.ndarray) else library.to_numpy(result)
        worst, allowed = difference(request["row"], ours, request["file"], row.same_numbers)
        answer |= {"worst": worst, "allowed": allowed}
    return answer


LATER = 2


def first_call(library, prepare):
    start = time.perf_counter()
    row = prepare()
    prepared = time.perf_counter() - start
    seconds = []
    for i in range(1 + LATER):
        start = time.perf_counter()
        library.wait(row.run(i))
        seconds.append(time.perf_counter() - start)
    return {"prepare_s": prepared, "first_s": seconds[0], "later_s": min(seconds[1:])}


class Library:
    """One row is prepared at a time, by each of the library's peers that is asked for it."""

    def __init__(self, name):
        self.rows = importlib.import_module(name + "_rows")
        self.row, self.prepared = None, {}

    def answer(self, request):
        if "row" not in request:
            return {"versions": self.rows.VERSIONS, "peers": {peer: list(rows) for peer, rows in self.rows.PEERS.items()}}
        row, peer = request["row"], request["peer"]
        if request.get("first"):
            return first_call(self.rows, self.rows.PEERS[peer][row])
        if row != self.row:
            self.row, self.prepared = row, {}
            gc.collect()
        if peer not in self.prepared:
            self.prepared[peer] = self.rows.PEERS[peer][row]()
            if self.prepared[peer].warm:
                warm_up(self.rows, self.prepared[peer])
        return measure(self.rows, self.prepared[peer], request)


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    gc.disable()
    library = Library(sys.argv[1])
    for line in sys.stdin:
        try:
            answer = library.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
