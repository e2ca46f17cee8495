"""PyTorch: .pt files (read only) and DLPack."""
import collections
import sys

import berth
import numpy as np
import torch
from checks import SHAPES, refused

DTYPES = [getattr(torch, name) for name in berth.DTYPES]


def numbers(dtype, shape):
    count = int(np.prod(shape))
    if dtype == torch.bool:
        return (torch.arange(count) % 2).to(dtype).reshape(shape)
    return torch.from_numpy(np.arange(count) * 7 % 113 + 1).to(dtype).reshape(shape)


def said(tensor):
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), data


def cases():
    return {f"{dtype} {i}": numbers(dtype, shape) for dtype in DTYPES for i, shape in enumerate(SHAPES)}


def expect(path, tensors):
    found = berth.load(path)
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name] == said(tensor), name


def check_dicts_of_tensors(folder):
    for kind in dict, collections.OrderedDict:
        torch.save(kind(cases()), folder / "x.pt")
        expect(folder / "x.pt", cases())


def check_state_dicts(folder):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.LSTM(4, 5))
    torch.save(model.state_dict(), folder / "model.pt")
    expect(folder / "model.pt", model.state_dict())
    torch.save({name: torch.nn.Parameter(torch.ones(2)) for name in "ab"}, folder / "x.pt")
    expect(folder / "x.pt", {"a": torch.ones(2), "b": torch.ones(2)})


def check_checkpoints(folder):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.save({"epoch": 3, "note": "é", "done": True, "none": None, "big": 2**70, "loss": 0.1, "below": -5 - 2**40,
                "model": model.state_dict(), "optimizer": optimizer.state_dict(), "list": [torch.ones(1), (torch.zeros(2), 7)]}, folder / "x.pt")
    moments = optimizer.state_dict()["state"]
    with berth.Tensors(folder / "x.pt") as tensors:
        assert {"model.weight", "model.bias", "optimizer.state.0.exp_avg", "optimizer.state.1.step", "list.0", "list.1.0"} <= set(tensors.names())
        assert tensors["optimizer.state.0.exp_avg"].said() == said(moments[0]["exp_avg"])
        assert tensors["list.1.0"].said() == said(torch.zeros(2))
        metadata = {"epoch": "3", "note": "é", "done": "true", "none": None, "big": None, "loss": "0.1", "below": str(-5 - 2**40),
                    "list.1.1": "7", "optimizer.param_groups.0.lr": "0.1", "optimizer.param_groups.0.params.1": "1"}
        assert {key: tensors.metadata(key) for key in metadata} == metadata


def check_strides_and_views(folder):
    base = torch.arange(60, dtype=torch.float32)
    views = {"base": base, "part": base[7:19], "turned": base.reshape(6, 10).T, "stepped": base.reshape(3, 4, 5)[::2, 1:, ::3],
             "repeated": base[:3].expand(4, 3), "one": base[5], "none": base[3:3], "both": base[:4].reshape(2, 2, 1).expand(2, 2, 5).transpose(0, 2),
             "reshaped": base.as_strided((2, 3), (20, 7), 4)}
    torch.save(views, folder / "x.pt")
    expect(folder / "x.pt", views)
    torch.save({"windows": base.unfold(0, 3, 1)}, folder / "x.pt")
    refused(lambda: berth.load(folder / "x.pt"), "overlap")
    torch.save(base, folder / "x.pt")
    expect(folder / "x.pt", {"": base})
    torch.save([base[:2], base[2:5]], folder / "x.pt")
    expect(folder / "x.pt", {"0": base[:2], "1": base[2:5]})


def check_lazy_conjugates_and_negatives(folder):
    for dtype in torch.complex64, torch.complex128:  # no zeros: PyTorch's negative of a complex128 0 is 0, not -0
        z = torch.complex(1 + torch.arange(6.0), 0.5 - torch.arange(6.0)).to(dtype).reshape(2, 3)
        values = {"plain": z, "conj": z.conj(), "turned": z.mH, "part": z.conj()[1:, ::2], "negative": torch._neg_view(z), "both": torch._neg_view(z.conj()),
                  "repeated": z[0, 1].conj().expand(3), "none": z.conj()[2:], "parameter": torch.nn.Parameter(z.conj())}
        torch.save(values, folder / "x.pt")
        expect(folder / "x.pt", {name: value.resolve_conj().resolve_neg() for name, value in values.items()})
        torch.save({"neg": z.conj().imag}, folder / "x.pt")
        expect(folder / "x.pt", {"neg": z.conj().imag.resolve_neg()})


def check_float8(folder):
    every = torch.arange(256, dtype=torch.uint8).reshape(8, 32)
    values = {name: every.view(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2")}
    values["part"] = values["float8_e5m2"].clone()[1:, 3:9].T
    torch.save(values, folder / "x.pt")
    expect(folder / "x.pt", values)


class Own:
    pass


def check_other_globals_are_refused_by_name(folder):
    class Evil:
        def __reduce__(self):
            return print, ("code was run",)

    others = {"numpy._core.multiarray._reconstruct": np.ones(2), "__builtin__.print": Evil(), "torch_checks.Own": Own(),
              "torch._utils._rebuild_sparse_tensor": torch.ones(2).to_sparse(),
              "torch.nn.modules.linear.Linear": torch.nn.Linear(1, 1), "torch.Size": torch.Size([1]), "torch.device": torch.device("cpu"),
              "torch._utils._rebuild_qtensor": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
              "torch.float8_e4m3fnuz": torch.ones(2).to(torch.float8_e4m3fnuz)}
    for name, value in others.items():
        torch.save({"a": torch.ones(1), "x": value}, folder / "x.pt")
        refused(lambda: berth.load(folder / "x.pt"), "x.pt", "needs", name)


def check_other_forms_are_refused(folder):
    torch.save({"a": torch.ones(1)}, folder / "x.pt", _use_new_zipfile_serialization=False)
    refused(lambda: berth.load(folder / "x.pt"), "before version 1.6")
    torch.save({"a": torch.ones(1)}, folder / "x.pt", pickle_protocol=4)
    refused(lambda: berth.load(folder / "x.pt"), "protocol 4")
    torch.jit.script(torch.nn.Linear(1, 1)).save(folder / "x.pt")
    refused(lambda: berth.load(folder / "x.pt"), "needs", "__torch__")
    torch.save({(1, 2): torch.ones(1)}, folder / "x.pt")
    refused(lambda: berth.load(folder / "x.pt"), "neither a text nor a whole number")
    loop = {}
    loop["loop"] = loop
    torch.save(loop, folder / "x.pt")
    refused(lambda: berth.load(folder / "x.pt"), "hold themselves")


def check_dlpack_to_torch(folder):
    for tensor in cases().values():
        x = berth.make(*said(tensor))
        for old in False, True:
            x.old = old
            assert said(torch.from_dlpack(x)) == said(tensor)
    x = berth.make("float32", (2,), bytes(8))
    x.copy = True
    mine = torch.from_dlpack(x)
    mine += 1
    assert x.bytes() == bytes(8) and mine.tolist() == [1, 1]


def check_dlpack_from_torch(folder):
    for tensor in cases().values():
        views = [tensor, tensor.T if tensor.ndim == 2 else tensor.movedim(0, -1) if tensor.ndim else tensor]
        if tensor.ndim:
            views += [tensor[..., ::2], tensor[1:]]
        if tensor.ndim < 8:
            views.append(tensor.expand(3, *tensor.shape))
        for view in views:
            for how in {}, {"max_version": (1, 0)}:
                assert berth.take_from(view, **how).said() == said(view), (view.dtype, view.shape)


def check_dlpack_is_let_go(folder):
    tensor = torch.zeros(100000)
    assert tensor.data_ptr() % 64 == 0
    taken = berth.take_from(tensor, max_version=(1, 0))
    tensor[0] = 5
    assert taken.bytes()[:4] == np.float32(5).tobytes()  # the same memory
    del tensor
    assert taken.bytes()[:4] == np.float32(5).tobytes()
    del taken


def check_dlpack_refusals(folder):
    refused(lambda: berth.take_from(torch.ones((1,) * 9)), "9 dimensions")


def check_npz_and_safetensors_meet(folder):
    """bfloat16 goes to NumPy's files and back."""
    x = berth.make(*said(numbers(torch.bfloat16, (3, 2))))
    berth.save_npz(folder / "x.npz", {"x": x}, True)
    assert berth.load(folder / "x.npz") == {"x": x.said()}
    assert np.load(folder / "x.npz")["x"].dtype.str == "|V2"
    assert sys.byteorder == "little"
