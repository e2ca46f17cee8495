"""berth through ctypes: arrays as (dtype's name, shape, bytes), files, and DLPack capsules in both directions."""
import ctypes
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p, py_object

MAX_RANK = 8
DTYPES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
ALL = DTYPES + ["float8_e4m3fn", "float8_e5m2", "complex64", "complex128"]  # what not every library has
BYTES = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1, 8, 16]


class Shape(ctypes.Structure):
    _fields_ = [("rank", c_int), ("size", c_int64 * MAX_RANK)]


class Failure(Exception):
    pass


library = ctypes.CDLL(os.environ["BERTH_LIBRARY"])
functions = {
    "bt_error_text": (c_char_p, []),
    "bt_from": (c_void_p, [c_void_p, c_int, Shape]),
    "bt_transpose": (c_void_p, [c_void_p]),
    "bt_block": (c_int, [c_void_p]),
    "bt_read": (c_int, [c_void_p, c_void_p, c_size_t]),
    "bt_dtype_of": (c_int, [c_void_p]),
    "bt_shape_of": (Shape, [c_void_p]),
    "bt_release": (None, [c_void_p]),
    "bt_live_arrays": (c_uint64, []),
    "bt_shutdown": (c_int, []),
    "bt_load_npy": (c_void_p, [c_char_p]),
    "bt_save_npy": (c_int, [c_char_p, c_void_p]),
    "bt_save": (c_int, [c_char_p, POINTER(c_char_p), POINTER(c_void_p), c_int, POINTER(c_char_p)]),
    "bt_save_shards": (c_int, [c_char_p, POINTER(c_char_p), POINTER(c_void_p), c_int, POINTER(c_char_p), c_uint64]),
    "bt_save_npz": (c_int, [c_char_p, POINTER(c_char_p), POINTER(c_void_p), c_int, c_bool]),
    "bt_tensors_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "bt_tensors_close": (None, [c_void_p]),
    "bt_tensors_count": (c_int, [c_void_p]),
    "bt_tensors_name": (c_char_p, [c_void_p, c_int]),
    "bt_tensors_metadata": (c_char_p, [c_void_p, c_char_p]),
    "bt_tensors_get": (c_void_p, [c_void_p, c_char_p]),
    "bt_to_dlpack": (c_int, [c_void_p, c_bool, POINTER(c_void_p)]),
    "bt_to_dlpack_unversioned": (c_int, [c_void_p, c_bool, POINTER(c_void_p)]),
    "bt_from_dlpack": (c_void_p, [c_void_p]),
    "bt_from_dlpack_unversioned": (c_void_p, [c_void_p]),
}
for name, (result, arguments) in functions.items():
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments

python = ctypes.pythonapi
python.PyCapsule_New.restype, python.PyCapsule_New.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = c_char_p, [py_object]
python.PyCapsule_GetPointer.restype, python.PyCapsule_GetPointer.argtypes = c_void_p, [py_object, c_char_p]
python.PyCapsule_SetName.restype, python.PyCapsule_SetName.argtypes = c_int, [py_object, c_char_p]

OLD, NEW = b"dltensor", b"dltensor_versioned"  # names of capsules that nobody has taken; capsules do not copy them
USED = {OLD: b"used_dltensor", NEW: b"used_dltensor_versioned"}


def check(status):
    if status:
        raise Failure(library.bt_error_text().decode())


class Array:
    """An array of berth's that this object owns. As a producer of DLPack it gives the structure before 1.0 if `old`, and copies of its elements
    if `copy`; consumers of that structure get copies unless copy is False."""

    def __init__(self, pointer):
        self.pointer, self.old, self.copy = pointer, False, None
        try:
            check(library.bt_block(pointer))
        except Failure:
            library.bt_release(pointer)
            self.pointer = None
            raise

    def __del__(self):
        if self.pointer:
            library.bt_release(self.pointer)

    @property
    def dtype(self):
        return ALL[library.bt_dtype_of(self.pointer)]

    @property
    def shape(self):
        shape = library.bt_shape_of(self.pointer)
        return tuple(shape.size[: shape.rank])

    def bytes(self):
        count = BYTES[library.bt_dtype_of(self.pointer)]
        for size in self.shape:
            count *= size
        data = ctypes.create_string_buffer(count + 1)
        check(library.bt_read(self.pointer, data, count))
        return data.raw[:count]

    def said(self):
        return self.dtype, self.shape, self.bytes()

    def transposed(self):
        return Array(library.bt_transpose(self.pointer))

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        tensor = c_void_p()
        if self.old or not max_version or max_version[0] < 1:
            check(library.bt_to_dlpack_unversioned(self.pointer, self.copy is not False, byref(tensor)))
            return python.PyCapsule_New(tensor, OLD, None)
        check(library.bt_to_dlpack(self.pointer, self.copy or bool(copy), byref(tensor)))
        return python.PyCapsule_New(tensor, NEW, None)


def make(dtype, shape, data):
    size = (c_int64 * MAX_RANK)(*shape)
    return Array(library.bt_from(data, DTYPES.index(dtype), Shape(len(shape), size)))


def take(capsule):
    """What a capsule holds; it is used up."""
    name = python.PyCapsule_GetName(capsule)
    pointer = python.PyCapsule_GetPointer(capsule, name)
    python.PyCapsule_SetName(capsule, USED[name])
    take_tensor = library.bt_from_dlpack if name == NEW else library.bt_from_dlpack_unversioned
    return Array(take_tensor(pointer))


def take_from(producer, **how):
    return take(producer.__dlpack__(**how))


def path_bytes(path):
    return os.fsencode(os.fspath(path))


def texts(values):
    return (c_char_p * (len(values) + 1))(*[value.encode() for value in values], None)


def named(arrays):
    return texts(list(arrays)), (c_void_p * (len(arrays) + 1))(*[array.pointer for array in arrays.values()]), len(arrays)


def save(path, arrays, metadata=()):
    names, pointers, count = named(arrays)
    check(library.bt_save(path_bytes(path), names, pointers, count, texts(metadata)))


def save_shards(path, arrays, shard_bytes, metadata=()):
    names, pointers, count = named(arrays)
    check(library.bt_save_shards(path_bytes(path), names, pointers, count, texts(metadata), shard_bytes))


def save_npz(path, arrays, compressed):
    names, pointers, count = named(arrays)
    check(library.bt_save_npz(path_bytes(path), names, pointers, count, compressed))


def save_npy(path, array):
    check(library.bt_save_npy(path_bytes(path), array.pointer))


def load_npy(path):
    return Array(library.bt_load_npy(path_bytes(path)))


class Tensors:
    """An open archive."""

    def __init__(self, path):
        self.pointer = c_void_p()
        check(library.bt_tensors_open(path_bytes(path), byref(self.pointer)))

    def names(self):
        return [library.bt_tensors_name(self.pointer, i).decode() for i in range(library.bt_tensors_count(self.pointer))]

    def __getitem__(self, name):
        return Array(library.bt_tensors_get(self.pointer, name.encode()))

    def metadata(self, key):
        text = library.bt_tensors_metadata(self.pointer, key.encode())
        return None if text is None else text.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        library.bt_tensors_close(self.pointer)


def load(path):
    with Tensors(path) as tensors:
        return {name: tensors[name].said() for name in tensors.names()}
