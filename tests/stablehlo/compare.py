"""Runs modules with JAX on the CPU client of its XLA, and compares with what berth made: compare.py FOLDER...

A folder is what `golden --export=FOLDER FILE` wrote: case_N.mlir and case_N.safetensors; FOLDER.log, what that printed, has names and tolerances.
"""
import json
import pathlib
import re
import sys

import jax
import ml_dtypes
import numpy
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)
DEVICE = jax.devices("cpu")[0]
KINDS = {"BOOL": bool, "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
         "F16": "float16", "BF16": ml_dtypes.bfloat16, "F32": "float32", "F64": "float64"}
LEAST = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-5, "float64": 1e-9}  # what two libraries may differ by


def load(path):
    data = path.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + header_bytes])
    header.pop("__metadata__", None)
    body = data[8 + header_bytes:]
    return {name: numpy.frombuffer(body[slice(*entry["data_offsets"])], KINDS[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def run(text, arguments):
    devices = xla_client.DeviceList((DEVICE,))
    executable = DEVICE.client.compile_and_load(text.encode(), devices, xla_client.CompileOptions())
    results = executable.execute_sharded([jax.device_put(x, DEVICE) for x in arguments])
    return [numpy.asarray(shards[0]) for shards in results.disassemble_into_single_device_arrays()]


def parts_of(x):
    """A complex number as a pair, as the file has it."""
    if not numpy.iscomplexobj(x):
        return x
    return numpy.ascontiguousarray(x)[..., None].view(numpy.float32 if x.dtype == numpy.complex64 else numpy.float64)


def difference(ours, theirs, rtol, atol):
    """None, or what differs."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{theirs.dtype} {theirs.shape} in the place of {ours.dtype} {ours.shape}"
    if ours.dtype.kind in "biu":
        wrong = ours != theirs
    else:
        a, b = ours.astype(float), theirs.astype(float)
        with numpy.errstate(all="ignore"):
            wrong = ~((a == b) | (numpy.isnan(a) & numpy.isnan(b)) | (abs(a - b) <= atol + rtol * abs(b)))
    if not wrong.any():
        return None
    at = tuple(int(i[0]) for i in numpy.nonzero(wrong))
    return f"{int(wrong.sum())} of {ours.size} differ, first at {at}: berth {ours[at]}, JAX {theirs[at]}"


def check(stem, rtol, atol):
    text = stem.with_suffix(".mlir").read_text()
    saved = load(stem.with_suffix(".safetensors"))
    arguments = []
    for number, name, kind in re.findall(r'^// argument (\d+): (?:input|variable "(.*)"), (\w+) ', text, re.M):
        x = saved[f"before.{name}" if name else f"argument.{number}"]
        arguments.append(numpy.ascontiguousarray(x).view(kind)[..., 0] if kind.startswith("complex") else x)
    results = run(text, arguments)
    for number, name in re.findall(r'^// result (\d+): (?:output|variable "(.*)"), ', text, re.M):
        wanted = saved[f"after.{name}" if name else f"result.{number}"]
        least = LEAST.get(wanted.dtype.name, 0)
        why = difference(wanted, parts_of(results[int(number)]), max(2 * rtol, least), max(2 * atol, least))
        if why:
            return f"result {number}: {why}"
    return None


def main():
    passed = failed = refused = 0
    for folder in map(pathlib.Path, sys.argv[1:]):
        for line in folder.with_suffix(".log").read_text().splitlines():
            if not line.startswith("EXPORTED"):
                continue
            _, name, made, rtol, atol, case = line.split(maxsplit=5)
            if made != "yes":
                refused += 1
                continue
            try:
                why = check(folder / name, float(rtol), float(atol))
            except Exception as error:  # what XLA says of a module that it does not take
                why = f"{type(error).__name__}: {str(error)[:600]}"
            passed, failed = passed + (not why), failed + bool(why)
            if why:
                print(f"FAILED {folder.name}/{name} {case}: {why}", flush=True)
    print(f"stablehlo: {passed} passed, {failed} failed by JAX {jax.__version__}; {refused} cannot be exported")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
