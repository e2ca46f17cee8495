import numpy

from common import MILLION, Row, plain, startup

VERSIONS = {"NumPy": numpy.__version__}


def wait(result):
    return result


def to_numpy(result):
    return numpy.asarray(result)


def root_minus_log(x):
    return x**0.5 - numpy.log(numpy.abs(x))


PEERS = {
    "numpy": {
        "elementwise": lambda: plain("elementwise", root_minus_log, numpy.asarray),
        "linspace": lambda: Row(lambda i: root_minus_log(numpy.linspace(0, 100, 10 * MILLION + i, dtype=numpy.float32))),
        "startup": lambda: startup("import numpy; x, y = numpy.array([1., 2.]), numpy.array([3., 4.]); print(*(x + y))"),
    }
}
