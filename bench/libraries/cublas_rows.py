"""Matrix products by cuBLASLt alone: the driver's and the library's functions through ctypes, no framework."""
import ctypes
import glob
import os
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

import numpy

from common import INPUTS, PRODUCT_KINDS, PRODUCT_SIDES, Row

WORKSPACE_BYTES = 32 << 20
R_32F, R_16BF = 0, 14  # cudaDataType_t
COMPUTE = {"f32": 68, "tf32": 77, "fast_bf16": 75, "bf16": 68}  # cublasComputeType_t: 32F, 32F_FAST_TF32, 32F_FAST_16BF
PREFER_WORKSPACE_BYTES = 1


class Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = [("algorithm", c_uint64 * 8), ("workspace_bytes", c_size_t), ("state", c_int), ("waves", c_float), ("rest", c_int * 4)]


def open_library():
    """By its plain name, else from a Python's wheels or a toolkit."""
    places = [""] + [os.path.join(path, "") for path in glob.glob("/usr/local/cuda*/lib64")]
    for path in sys.path:
        places += [os.path.join(found, "") for found in glob.glob(os.path.join(path, "nvidia", "*", "lib"))]
    for version in (13, 12):
        for place in places:
            try:
                return ctypes.CDLL(f"{place}libcublasLt.so.{version}")
            except OSError:
                continue
    raise OSError("there is no libcublasLt.so.13 nor .12")


def call(function, *arguments):
    code = function(*arguments)
    if code:
        raise RuntimeError(f"{function.__name__} gives {code}")


cuda, library = ctypes.CDLL("libcuda.so.1"), open_library()
device, context, stream, handle = c_int(), c_void_p(), c_void_p(), c_void_p()
call(cuda.cuInit, 0)
call(cuda.cuDeviceGet, byref(device), int(os.environ.get("BERTH_BENCH_ORDINAL", "0")))
call(cuda.cuDevicePrimaryCtxRetain, byref(context), device)
call(cuda.cuCtxPushCurrent_v2, context)
call(cuda.cuStreamCreate, byref(stream), 1)
call(library.cublasLtCreate, byref(handle))
library.cublasLtGetVersion.restype = c_size_t
VERSIONS = {"cuBLASLt": str(library.cublasLtGetVersion())}


class Memory:
    def __init__(self, size):
        self.address, self.bytes = c_uint64(), size
        call(cuda.cuMemAlloc_v2, byref(self.address), c_size_t(size))

    def __del__(self):
        cuda.cuMemFree_v2(self.address)

    def fill(self, array):
        call(cuda.cuMemcpyHtoDAsync_v2, self.address, c_void_p(array.ctypes.data), c_size_t(self.bytes), stream)
        call(cuda.cuStreamSynchronize, stream)
        return self

    def read(self, array):
        call(cuda.cuMemcpyDtoHAsync_v2, c_void_p(array.ctypes.data), self.address, c_size_t(self.bytes), stream)
        call(cuda.cuStreamSynchronize, stream)
        return array


def to_bf16(x):
    bits = x.view(numpy.uint32)
    return ((bits + numpy.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


class Product:
    """c = a b, n x n. The matrices are in rows and the library reads columns: it is told to multiply b and a."""

    def __init__(self, kind, a, b):
        self.side, self.short = len(a), kind == "bf16"
        size = a.size * (2 if self.short else 4)
        self.a, self.b = (Memory(size).fill(to_bf16(x) if self.short else x) for x in (a, b))
        self.c, self.workspace = Memory(size), Memory(WORKSPACE_BYTES)
        self.work, self.layout, self.found = c_void_p(), c_void_p(), Found()
        self.one, self.zero = c_float(1), c_float(0)
        preference, count, most = c_void_p(), c_int(), c_size_t(WORKSPACE_BYTES)
        kind_of_number, n = R_16BF if self.short else R_32F, c_uint64(self.side)
        call(library.cublasLtMatmulDescCreate, byref(self.work), COMPUTE[kind], R_32F)
        call(library.cublasLtMatrixLayoutCreate, byref(self.layout), kind_of_number, n, n, n)
        call(library.cublasLtMatmulPreferenceCreate, byref(preference))
        call(library.cublasLtMatmulPreferenceSetAttribute, preference, PREFER_WORKSPACE_BYTES, byref(most), c_size_t(8))
        call(library.cublasLtMatmulAlgoGetHeuristic, handle, self.work, *[self.layout] * 4, preference, 1, byref(self.found), byref(count))
        call(library.cublasLtMatmulPreferenceDestroy, preference)
        if not count.value:
            raise RuntimeError("cuBLASLt knows no way to do this product")

    def __del__(self):
        library.cublasLtMatrixLayoutDestroy(self.layout)
        library.cublasLtMatmulDescDestroy(self.work)

    def run(self, repetition):
        call(library.cublasLtMatmul, handle, self.work, byref(self.one), self.b.address, self.layout, self.a.address, self.layout,
             byref(self.zero), self.c.address, self.layout, self.c.address, self.layout, byref(self.found), self.workspace.address,
             c_size_t(WORKSPACE_BYTES), stream)
        return self


def wait(product):
    call(cuda.cuStreamSynchronize, stream)
    return product


def to_numpy(product):
    shape = (product.side, product.side)
    if not product.short:
        return product.c.read(numpy.empty(shape, numpy.float32))
    return (product.c.read(numpy.empty(shape, numpy.uint16)).astype(numpy.uint32) << 16).view(numpy.float32)


def product(row, kind):
    return lambda: Row(Product(kind, *INPUTS[row]()).run)


PEERS = {"cublas": {f"matmul_{kind}_{n}": product(f"matmul_{kind}_{n}", kind) for kind in PRODUCT_KINDS for n in PRODUCT_SIDES}
         | {f"matmul{n}": product(f"matmul{n}", "f32") for n in (1024, 2048, 4096)}}
