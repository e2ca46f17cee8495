"""safetensors: files, and shards with an index."""
import json

import berth
import ml_dtypes
import numpy as np
from checks import refused
from numpy_checks import cases, of_berth, said
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


def all_cases():
    return {f"layer.{i}.{array.dtype}": array for i, array in enumerate(cases())}


def of_safetensors(array):
    return array.view(ml_dtypes.bfloat16) if array.dtype.kind == "V" else array


def check_files_from_safetensors(folder):
    arrays = all_cases()
    save_file(arrays, folder / "x.safetensors", {"format": "np", "of": "é"})
    assert berth.load(folder / "x.safetensors") == {name: said(array) for name, array in arrays.items()}
    with berth.Tensors(folder / "x.safetensors") as tensors:
        assert tensors.metadata("of") == "é" and tensors.metadata("absent") is None


def check_files_from_berth(folder):
    arrays = all_cases()
    berth.save(folder / "x.safetensors", {name: of_berth(array) for name, array in arrays.items()}, ["format", "np"])
    loaded = load_file(folder / "x.safetensors")
    assert {name: said(of_safetensors(array)) for name, array in loaded.items()} == {name: said(array) for name, array in arrays.items()}
    save_file(arrays, folder / "y.safetensors", {"format": "np"})
    assert (folder / "x.safetensors").read_bytes() == (folder / "y.safetensors").read_bytes()


def check_shards_from_hugging_face(folder):
    arrays = all_cases()
    names = list(arrays)
    files = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in files.items():
        save_file({name: arrays[name] for name in held}, folder / file, {"format": "pt"})
    index = {"metadata": {"total_size": 1, "by": "text"}, "weight_map": {name: file for file, held in files.items() for name in held}}
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    assert berth.load(path) == {name: said(array) for name, array in arrays.items()}
    with berth.Tensors(path) as tensors:
        assert tensors.metadata("by") == "text"
        (folder / "model-00002-of-00002.safetensors").unlink()
        assert tensors[names[0]].said() == said(arrays[names[0]])
        refused(lambda: tensors[names[1]], "model-00002-of-00002.safetensors", "No such file")
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"garbage.")
    with berth.Tensors(path) as tensors:
        refused(lambda: tensors[names[1]], "model-00002-of-00002.safetensors: byte 0")


def check_shards_from_berth(folder):
    arrays = all_cases()
    path = folder / "model.safetensors.index.json"
    berth.save_shards(path, {name: of_berth(array) for name, array in arrays.items()}, 200, ["format", "pt"])
    index = json.loads(path.read_text())
    assert path.read_text() == json.dumps(index, indent=2, sort_keys=True) + "\n"
    assert index["metadata"] == {"format": "pt", "total_size": sum(array.nbytes for array in arrays.values())}
    assert list(index["weight_map"]) == sorted(arrays)
    files = sorted(set(index["weight_map"].values()))
    assert files == [f"model-{i + 1:05d}-of-{len(files):05d}.safetensors" for i in range(len(files))] and len(files) > 3
    assert sorted(file.name for file in folder.iterdir()) == sorted([*files, path.name])
    for name, file in index["weight_map"].items():
        with safe_open(folder / file, "np") as shard:
            assert said(of_safetensors(shard.get_tensor(name))) == said(arrays[name])
            assert shard.metadata() == {"format": "pt"}
    for file in files:
        assert sum(array.nbytes for array in load_file(folder / file).values()) <= 200
    assert berth.load(path) == {name: said(array) for name, array in arrays.items()}
