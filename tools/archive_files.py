#!/usr/bin/env python3
"""Writes the small archives of tests/fuzz/corpus/{zip,pickle,index} by the real NumPy and PyTorch (both must be importable). The tests of
archives read them, and the fuzzers begin with them."""
import collections
import io
import json
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

CORPUS = Path(__file__).resolve().parent.parent / "tests/fuzz/corpus"


def numpy_archives(folder):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.arange(4, dtype=">i2"), "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
              "one": np.float64(0.5), "none": np.zeros((2, 0), np.bool_)}
    np.savez(folder / "stored.npz", **arrays)
    np.savez_compressed(folder / "deflated.npz", **arrays)
    np.savez(folder / "empty.npz")
    np.savez(folder / "objects.npz", a=np.array([None], dtype=object))
    np.savez(folder / "odd.npz", objects=np.array([None], dtype=object), pairs=np.zeros(2, [("é", "<f4"), ("b", "i1", (2,))]), rank9=np.zeros((1,) * 9, np.int8),
             text=np.array(["ab", "c"]), x=np.arange(3, dtype=np.uint8))
    member = io.BytesIO()
    np.save(member, np.arange(3, dtype=np.uint8))
    with zipfile.ZipFile(folder / "comment.npz", "w") as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), member.getvalue())
        archive.comment = b"a comment that mentions PK\5\6"
    with zipfile.ZipFile(folder / "bzip2.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr(zipfile.ZipInfo("x.npy"), member.getvalue(), zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(folder / "other.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("readme.txt"), "text")
    zip64(folder / "zip64.npz", member.getvalue())


def zip64(path, content):
    """One member, whose sizes and place are in zip64 records, as those of 4 GiB are."""
    name, crc, size = b"x.npy", zlib.crc32(content), len(content)
    common = struct.pack("<HHHHHIIIH", 45, 0, 0, 0, 0x21, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name))
    local = b"PK\3\4" + common + struct.pack("<H", 20) + name + struct.pack("<HHQQ", 1, 16, size, size) + content
    entry = b"PK\1\2" + struct.pack("<H", 45) + common + struct.pack("<HHHHII", 8 + 28, 0, 0, 0, 0, 0xFFFFFFFF) + name
    entry += struct.pack("<HHI", 0x7777, 4, 1)  # a field that is not of zip64
    entry += struct.pack("<HHQQQ", 1, 24, size, size, 0)
    begin, bytes_ = len(local), len(entry)
    end = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, bytes_, begin) + b"PK\6\7" + struct.pack("<IQI", 0, begin + bytes_, 1)
    end += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(local + entry + end)


def torch_values():
    base = torch.arange(12, dtype=torch.float32)
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.copy_(torch.tensor([3.0]))
    moments = {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 0.1, "params": [0, 1], "betas": (0.5, 1e-30)}]}
    return {
        "checkpoint": {"epoch": 3, "note": "text", "done": True, "none": None, "big": 2**70, "below": -(2**40), "model": model.state_dict(), "optimizer": moments},
        "views": collections.OrderedDict(base=base, part=base[3:9], turned=base.reshape(3, 4).T, repeated=base[:2].reshape(2, 1).expand(2, 3)),
        "dtypes": {name: torch.tensor([0, 1], dtype=getattr(torch, name)) for name in
                   "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64".split()},
        "lone": torch.tensor([[7]], dtype=torch.int8),
        "parameters": [torch.nn.Parameter(torch.ones(2)), (torch.zeros(0, 3),)],
        "own": {"a": torch.ones(1), "x": np.ones(1)},
        "windows": {"a": base.unfold(0, 3, 1)},
        "rank9": {"a": torch.ones((1,) * 9)},
        "lazy": {"conj": (z := torch.tensor([1 + 2j, 3 - 4j])).conj(), "neg": z.clone().conj().imag, "both": torch._neg_view(z.conj()), "repeated": z[1].conj().expand(2)},
        "float8": {name: torch.tensor([0.5, -2]).to(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2")},
    }


def rewrite(path, to, member, old, new):
    """The archive with the bytes of one member replaced."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(to, "w") as made:
        for entry in archive.infolist():
            content = archive.read(entry)
            made.writestr(zipfile.ZipInfo(entry.filename), content.replace(old, new) if entry.filename.endswith(member) else content)


def torch_archives(folder, pickles):
    for name, value in torch_values().items():
        torch.save(value, folder / f"{name}.pt")
        (pickles / f"{name}.pkl").write_bytes(zipfile.ZipFile(folder / f"{name}.pt").read(f"{name}/data.pkl"))
    torch.save({"a": torch.ones(1)}, folder / "protocol4.pt", pickle_protocol=4)
    torch.save({"a": torch.ones(1)}, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    rewrite(folder / "lone.pt", folder / "big_endian.pt", "byteorder", b"little", b"big")
    rewrite(folder / "lazy.pt", folder / "other_bits.pt", "data.pkl", b"conj", b"odds")


def main():
    for kind in "zip", "pickle", "index":
        shutil.rmtree(CORPUS / kind, ignore_errors=True)
        (CORPUS / kind).mkdir()
    numpy_archives(CORPUS / "zip")
    torch_archives(CORPUS / "zip", CORPUS / "pickle")
    index = {"metadata": {"total_size": 8, "by": "text"}, "weight_map": {"a": "m-00001-of-00002.safetensors", "b": "m-00002-of-00002.safetensors"}}
    (CORPUS / "index/two").write_text(json.dumps(index, indent=2) + "\n")
    (CORPUS / "index/none").write_text(json.dumps({"weight_map": {}}))


if __name__ == "__main__":
    main()
