#!/usr/bin/env python3
"""Writes tests/flux/*.bson: models of Flux's as BSON.jl lays them out, of its rules and not by Julia, and expected.json with what they
compute, worked out here index by index as Flux defines it: kernels are flipped, images are (W, H, C, B).

    python3 tools/bson_files.py [FOLDER]
"""
import json
import math
import random
import struct
import sys
from pathlib import Path


# --- BSON ---------------------------------------------------------------------------------------------------------------


def element(key, value):
    name = key.encode() + b"\0"
    if value is None:
        return b"\x0a" + name
    if isinstance(value, bool):
        return b"\x08" + name + bytes([value])
    if isinstance(value, int):
        return b"\x12" + name + struct.pack("<q", value)
    if isinstance(value, float):
        return b"\x01" + name + struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode() + b"\0"
        return b"\x02" + name + struct.pack("<i", len(text)) + text
    if isinstance(value, bytes):
        return b"\x05" + name + struct.pack("<i", len(value)) + b"\0" + value
    if isinstance(value, list):
        return b"\x04" + name + document({str(i): item for i, item in enumerate(value)})
    return b"\x03" + name + document(value)


def document(items):
    body = b"".join(element(key, value) for key, value in items.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


# --- Julia --------------------------------------------------------------------------------------------------------------


def datatype(*name, params=()):
    return {"tag": "datatype", "name": list(name), "params": list(params)}


FLOAT = datatype("Core", "Float32")


def array_type(rank):
    return datatype("Core", "Array", params=[FLOAT, rank])


def structure(kind, *fields):
    return {"data": list(fields), "type": kind, "tag": "struct"}  # the order of keys is arbitrary


def function(module, name):
    return structure(datatype(module, "#" + name))


def float32(value):
    return {"tag": "struct", "type": FLOAT, "data": struct.pack("<f", value)}


def pair(*items):
    return {"tag": "tuple", "data": list(items)}


def symbol(name):
    return {"tag": "symbol", "name": name}


def named(**items):
    kind = datatype("Core", "NamedTuple", params=[pair(*map(symbol, items)), datatype("Core", "Tuple")])
    return structure(kind, *items.values())


class Array:
    """Column-major numbers of float32."""

    def __init__(self, draw, *sizes):
        self.sizes = sizes
        self.data = [struct.unpack("f", struct.pack("f", draw()))[0] for _ in range(math.prod(sizes))]

    def __getitem__(self, index):
        at = 0
        for size, i in zip(reversed(self.sizes), reversed(index)):
            at = at * size + i
        return self.data[at]

    def bson(self):
        return {"tag": "array", "type": FLOAT, "size": list(self.sizes), "data": struct.pack(f"<{len(self.data)}f", *self.data)}


# --- Flux ---------------------------------------------------------------------------------------------------------------


def convolved(x, w, bias, stride, pad, groups):
    """x (W, H, C, B) as a function of indices, with its sizes; w (KW, KH, C / groups, O)."""
    value, (width, height, channels, batch) = x
    kw, kh, inner, outputs = w.sizes
    out = [(size + 2 * p - k) // s + 1 for size, p, k, s in zip((width, height), pad, (kw, kh), stride)]

    def result(i, j, o, b):
        first, total = o // (outputs // groups) * inner, bias[(o,)]
        for a in range(kw):
            for c in range(kh):
                u, v = i * stride[0] + kw - 1 - a - pad[0], j * stride[1] + kh - 1 - c - pad[1]
                if 0 <= u < width and 0 <= v < height:
                    total += sum(w[(a, c, d, o)] * value(u, v, first + d, b) for d in range(inner))
        return total

    return result, (*out, outputs, batch)


def make_network(rng):
    draw = lambda: rng.uniform(-1, 1)
    positive = lambda: rng.uniform(0.5, 2)
    width, height, batch = 6, 5, 2
    x, w, b = Array(draw, width, height, 2, batch), Array(draw, 3, 2, 1, 4), Array(draw, 4)
    beta, gamma, mean, var = Array(draw, 4), Array(draw, 4), Array(draw, 4), Array(positive, 4)
    eps = 1e-3
    conv, sizes = convolved((lambda *i: x[i], x.sizes), w, b, (2, 1), (1, 0), 2)

    def normed(i, j, c, n):
        y = max(conv(i, j, c, n), 0)
        return math.tanh(gamma[(c,)] * (y - mean[(c,)]) / math.sqrt(var[(c,)] + eps) + beta[(c,)])

    features = sizes[0] * sizes[1] * sizes[2]
    weight = Array(draw, 3, features)
    rows = []
    for n in range(batch):
        flat = [normed(i, j, c, n) for c in range(4) for j in range(sizes[1]) for i in range(sizes[0])]
        logits = [sum(weight[(o, k)] * flat[k] for k in range(features)) for o in range(3)]
        total = sum(map(math.exp, logits))
        rows.append([math.exp(y) / total for y in logits])
    flux = lambda name, *params: datatype("Flux", name, params=params)
    relu, tanh, identity = function("NNlib", "relu"), function("Base", "tanh"), function("Base", "identity")
    layers = [
        structure(flux("Conv", 2, 2, relu["type"], array_type(4), array_type(1)), relu, w.bson(), b.bson(), pair(2, 1), pair(1, 0), pair(1, 1), 2),
        structure(flux("BatchNorm", tanh["type"], array_type(1), FLOAT, array_type(1)), tanh, beta.bson(), gamma.bson(), mean.bson(),
                  var.bson(), float32(eps), float32(0.25), True, True, None, 4),
        function("Flux", "flatten"),
        structure(flux("Dropout"), 0.5, structure(datatype("Base", "Colon")), None, structure(datatype("Random", "TaskLocalRNG"))),
        structure(flux("Dense", identity["type"], array_type(2), datatype("Core", "Bool")), weight.bson(), False, identity),
        function("NNlib", "softmax"),
    ]
    model = structure(flux("Chain", datatype("Core", "Tuple", params=[layer["type"] for layer in layers])), pair(*layers))
    images = [[[[x[(i, j, c, n)] for i in range(width)] for j in range(height)] for c in range(2)] for n in range(batch)]
    return {"epoch": 3, "model": model}, {"key": "model", "x": images, "y": rows}


def make_state(rng):
    """Flux.state of a chain of two Dense layers."""
    draw = lambda: rng.uniform(-1, 1)
    first, bias, second = Array(draw, 3, 4), Array(draw, 3), Array(draw, 2, 3)
    empty = pair()
    state = named(layers=pair(named(weight=first.bson(), bias=bias.bson(), σ=empty), named(weight=second.bson(), bias=False, σ=empty)))
    x = [[draw() for _ in range(4)] for _ in range(3)]
    hidden = [[math.tanh(bias[(o,)] + sum(first[(o, k)] * row[k] for k in range(4))) for o in range(3)] for row in x]
    y = [[sum(second[(o, k)] * row[k] for k in range(3)) for o in range(2)] for row in hidden]
    return {"model_state": state}, {"key": "model_state", "x": x, "y": y}


def make_anonymous(rng):
    model = structure(datatype("Flux", "Chain"), pair(structure(datatype("Main", "#5#6"))))
    return {"model": model}, None


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/flux")
    folder.mkdir(exist_ok=True)
    expected = {}
    for name, make in {"network": make_network, "state": make_state, "anonymous": make_anonymous}.items():
        values, results = make(random.Random(name))
        (folder / f"{name}.bson").write_bytes(document(values))
        if results:
            expected[name] = results
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


main()
