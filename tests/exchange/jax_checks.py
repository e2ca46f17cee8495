"""JAX: DLPack in both directions, and its arrays by way of .npz."""
import berth
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from checks import SHAPES, refused

jax.config.update("jax_enable_x64", True)


def numbers(dtype, shape):
    count = int(np.prod(shape))
    return jnp.asarray((np.arange(count) * 7 % 113 % (2 if dtype == "bool" else 128)).reshape(shape), dtype)


def said(array):
    return str(array.dtype), array.shape, np.asarray(array).tobytes()


def cases():
    return [numbers(dtype, shape) for dtype in berth.DTYPES for shape in SHAPES]


def check_dlpack_to_jax(folder):
    for array in cases():
        for copy in None, False:
            x = berth.make(*said(array))
            x.copy = copy
            taken = jax.dlpack.from_dlpack(x)
            del x
            assert said(taken) == said(array)
    turned = berth.make("int32", (2, 3), np.arange(6, dtype=np.int32).tobytes()).transposed()
    assert jax.dlpack.from_dlpack(turned).tolist() == [[0, 3], [1, 4], [2, 5]]


def check_dlpack_from_jax(folder):
    for array in cases():
        for how in {}, {"max_version": (1, 0)}:
            assert berth.take_from(array, **how).said() == said(array)


def check_dlpack_shares_memory(folder):
    array = jnp.arange(100000, dtype=jnp.float32)
    x = berth.take_from(array)
    x.copy = False
    back = jax.dlpack.from_dlpack(x)
    assert back.unsafe_buffer_pointer() == array.unsafe_buffer_pointer()
    del array
    assert float((back + 1)[99999]) == 100000


def check_dlpack_refusals(folder):
    refused(lambda: berth.take_from(jnp.ones(2, jnp.float8_e4m3b11fnuz)), "DLPack's type 9")


def check_npz(folder):
    arrays = {f"{array.dtype} {i}": array for i, array in enumerate(cases())}
    jnp.savez(folder / "x.npz", **{name: np.asarray(array) for name, array in arrays.items()})
    assert berth.load(folder / "x.npz") == {name: said(array) for name, array in arrays.items()}
    berth.save_npz(folder / "y.npz", {name: berth.make(*said(array)) for name, array in arrays.items()}, True)
    loaded = np.load(folder / "y.npz")
    for name, array in arrays.items():
        bits = loaded[name]
        assert said(jnp.asarray(bits.view(ml_dtypes.bfloat16) if bits.dtype.kind == "V" else bits)) == said(array)
