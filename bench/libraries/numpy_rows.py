import numpy

from common import MILLION, Row, plain, startup, thin_products

VERSIONS = {"NumPy": numpy.__version__}


def wait(result):
    return result


def to_numpy(result):
    return numpy.asarray(result)


def root_minus_log(x):
    return x**0.5 - numpy.log(numpy.abs(x))


def scatter_rows(x, indices, rows):
    x = x.copy()
    numpy.add.at(x, indices, rows)
    return x


def drawn(function):
    """By a generator that goes on; what is compared is what a new one draws."""
    draw = numpy.random.default_rng(0)
    return Row(lambda repetition: function(draw), lambda: function(numpy.random.default_rng(0)), same_numbers=False)


PEERS = {
    "numpy": {
        "elementwise": lambda: plain("elementwise", root_minus_log, numpy.asarray),
        "linspace": lambda: Row(lambda i: root_minus_log(numpy.linspace(0, 100, 10 * MILLION + i, dtype=numpy.float32))),
        "thin_product": lambda: plain("thin_product", thin_products, numpy.asarray),
        "fft": lambda: plain("fft", numpy.fft.fft, numpy.asarray),
        "fft_lines": lambda: plain("fft_lines", numpy.fft.fft, numpy.asarray),
        "cholesky": lambda: plain("cholesky", numpy.linalg.cholesky, numpy.asarray),
        "scatter_rows": lambda: plain("scatter_rows", scatter_rows, numpy.asarray),
        "sort4m": lambda: plain("sort4m", numpy.sort, numpy.asarray),
        "sort_rows": lambda: plain("sort_rows", numpy.sort, numpy.asarray),
        "permutation": lambda: drawn(lambda draw: draw.permutation(numpy.arange(MILLION, dtype=numpy.int32))),
        "normal": lambda: drawn(lambda draw: draw.standard_normal(10 * MILLION, dtype=numpy.float32)),
        "startup": lambda: startup("import numpy; x, y = numpy.array([1., 2.]), numpy.array([3., 4.]); print(*(x + y))"),
    }
}
