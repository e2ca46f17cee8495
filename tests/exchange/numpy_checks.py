"""NumPy: .npy, .npz and DLPack."""
import io
import sys
import zipfile

import berth
import ml_dtypes
import numpy as np
from checks import SHAPES, refused

DTYPES = [np.dtype(name) for name in berth.DTYPES if name != "bfloat16"] + [np.dtype(ml_dtypes.bfloat16)]


def numbers(dtype, shape):
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % 113 % (2 if dtype == bool else 128)).astype(dtype).reshape(shape)


def said(array):
    return str(array.dtype), array.shape, array.tobytes()


def of_berth(array):
    return berth.make(str(array.dtype), array.shape, np.ascontiguousarray(array).tobytes())


def cases():
    return [numbers(dtype, shape) for dtype in DTYPES for shape in SHAPES]


def check_npy_from_numpy(folder):
    for array in cases():
        for order in "CF":
            np.save(folder / "x.npy", np.asarray(array, order=order))
            assert berth.load_npy(folder / "x.npy").said() == said(array)


def check_npy_from_berth(folder):
    for array in cases():
        berth.save_npy(folder / "x.npy", of_berth(array))
        loaded = np.load(folder / "x.npy")
        assert said(loaded.view(ml_dtypes.bfloat16) if array.dtype == ml_dtypes.bfloat16 else loaded) == said(array)
        mine = io.BytesIO()
        np.save(mine, array)
        assert mine.getvalue() == (folder / "x.npy").read_bytes(), array.dtype


def check_npz_from_numpy(folder):
    arrays = {f"{array.dtype} {i}/x": array for i, array in enumerate(cases())}
    arrays["big"] = np.arange(5, dtype=">i4")
    arrays["turned"] = numbers(np.dtype("float32"), (40, 30)).T
    for save in np.savez, np.savez_compressed:
        save(folder / "x.npz", **arrays)
        assert berth.load(folder / "x.npz") == {name: said(array.astype(array.dtype.newbyteorder("="))) for name, array in arrays.items()}
    np.savez(folder / "none.npz")
    assert berth.load(folder / "none.npz") == {}


def check_npz_from_berth(folder):
    arrays = {f"{array.dtype} {i} é": array for i, array in enumerate(cases())}
    for compressed in False, True:
        berth.save_npz(folder / "x.npz", {name: of_berth(array) for name, array in arrays.items()}, compressed)
        with np.load(folder / "x.npz") as loaded:
            assert list(loaded) == list(arrays)
            for name, array in arrays.items():
                view = loaded[name].view(ml_dtypes.bfloat16) if array.dtype == ml_dtypes.bfloat16 else loaded[name]
                assert said(view) == said(array)
        archive = zipfile.ZipFile(folder / "x.npz")
        assert archive.testzip() is None
        assert {member.compress_type for member in archive.infolist()} == {8 if compressed else 0}
    berth.save_npz(folder / "none.npz", {}, False)
    assert not list(np.load(folder / "none.npz"))


def check_many_members(folder):
    arrays = {f"a{i}": np.int8(i % 100) for i in range(70000)}  # more than fit the directory of a zip that is not zip64
    np.savez(folder / "x.npz", **arrays)
    with berth.Tensors(folder / "x.npz") as tensors:
        assert tensors.names() == list(arrays) and tensors["a69999"].bytes() == b"\x63"
    one = berth.make("int8", (), b"\7")
    berth.save_npz(folder / "y.npz", dict.fromkeys(arrays, one), False)
    loaded = np.load(folder / "y.npz")
    assert len(loaded.files) == 70000 and loaded["a69999"] == 7


def check_objects_and_other_zips_are_refused(folder):
    np.savez(folder / "x.npz", a=np.array([{}], dtype=object), b=np.ones(1, np.longdouble), c=np.array(["text"]))
    for name in "abc":
        with berth.Tensors(folder / "x.npz") as tensors:
            refused(lambda: tensors[name], f"x.npz: {name}.npy", "which berth has not")
    with zipfile.ZipFile(folder / "z.zip", "w") as archive:
        archive.writestr("readme.txt", "text")
    refused(lambda: berth.load(folder / "z.zip"), 'member "readme.txt"', "neither a .npz")
    with zipfile.ZipFile(folder / "z.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.npy", "text")
    refused(lambda: berth.load(folder / "z.zip"), "method 12")


def check_dlpack_to_numpy(folder):
    for array in cases():
        if array.dtype == ml_dtypes.bfloat16:  # NumPy has none
            continue
        x = of_berth(array)
        for old in False, True:
            x.old = old
            taken = np.from_dlpack(x)
            assert said(taken) == said(array) and taken.flags.writeable == (not old and not array.size)
        shared = np.from_dlpack(of_berth(array))  # outlives the handle
        assert said(shared) == said(array)
    turned = berth.make("int32", (2, 3), np.arange(6, dtype=np.int32).tobytes()).transposed()
    assert np.from_dlpack(turned).tolist() == [[0, 3], [1, 4], [2, 5]]
    copied = np.from_dlpack(turned, copy=True)
    copied[0, 0] = 9
    assert turned.bytes()[:4] == bytes(4)


def check_dlpack_shares_memory(folder):
    x = berth.make("float32", (1000,), np.ones(1000, np.float32).tobytes())
    one, two = np.from_dlpack(x), np.from_dlpack(x)
    assert one.ctypes.data == two.ctypes.data
    assert berth.take_from(one, max_version=(1, 0)).said() == said(one)


def check_dlpack_from_numpy(folder):
    for array in cases():
        if array.dtype == ml_dtypes.bfloat16:
            continue
        views = [array, array.T, np.asfortranarray(array)]
        if array.ndim:
            views += [array[::-1], array[..., ::2], np.broadcast_to(array, (3, *array.shape))] if array.ndim < 8 else [array[::-1]]
        for view in views:
            for how in ({}, {"max_version": (1, 0)}) if view.flags.writeable else ({"max_version": (1, 0)},):
                assert berth.take_from(view, **how).said() == said(np.ascontiguousarray(view).reshape(view.shape))


def check_dlpack_is_let_go(folder):
    room = np.zeros(4096 + 64, np.uint8)
    begin = -room.ctypes.data % 64
    aligned, unaligned = room[begin : begin + 4096], room[begin + 1 : begin + 4097]
    for array, lent in (aligned, True), (unaligned, False), (aligned[::2], False):
        for how in {}, {"max_version": (1, 0)}:
            before = sys.getrefcount(array)
            taken = berth.take_from(array, **how)
            assert sys.getrefcount(array) == before + lent
            array[0] = 5
            assert taken.bytes()[0] == (5 if lent else 0)
            array[0] = 0
            del taken
            assert sys.getrefcount(array) == before


def check_dlpack_refusals(folder):
    refused(lambda: berth.take_from(np.zeros((1,) * 9, np.int8)), "9 dimensions")


def check_the_end_waits_for_consumers(folder):
    x = berth.make("int8", (100,), bytes(100))
    shared = np.from_dlpack(x)
    del x
    refused(lambda: berth.check(berth.library.bt_shutdown()), "array")
    del shared
    berth.check(berth.library.bt_shutdown())
