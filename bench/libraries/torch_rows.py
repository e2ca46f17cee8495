import os

import torch
from torch.nn import functional

from common import ADDS, CHECKED_STEPS, INPUTS, MILLION, NETWORKS, Row, batch, parameters, plain, startup

torch.set_num_threads(int(os.environ["BERTH_BENCH_THREADS"]))
VERSIONS = {"PyTorch": torch.__version__}


def wait(result):
    return result


def to_numpy(result):
    return result.detach().numpy()


def eager(row, function):
    return lambda: plain(row, function, torch.from_numpy)


def root_minus_log(x):
    return x**0.5 - torch.log(torch.abs(x))


def dependent_adds(x, y):
    for _ in range(ADDS):
        x = x + y
    return x


def random100m(repetition):
    return (torch.rand(100 * MILLION) ** 2 - 0.5) ** 3 - 0.2


def step(name):
    network = NETWORKS[name]

    def loss_of(values, x, y):
        for i in range(0, len(values), 2):
            x = torch.addmm(values[i + 1], x, values[i])
            if i + 2 < len(values):
                x = functional.relu(x)
        return functional.mse_loss(x, y) if network.squares else functional.cross_entropy(x, y)

    def prepare():
        x, y = map(torch.from_numpy, batch(network))
        y = y if network.squares else y.long()
        values = [torch.tensor(value, requires_grad=True) for value in parameters(network)]
        optimizer = torch.optim.SGD(values, lr=network.rate)

        def run(repetition, steps=network.steps):
            for _ in range(steps):
                optimizer.zero_grad()
                loss = loss_of(values, x, y)
                loss.backward()
                optimizer.step()
            return loss

        def check():
            with torch.no_grad():
                for value, start in zip(values, parameters(network)):
                    value.copy_(torch.from_numpy(start))
            run(0, CHECKED_STEPS)
            return torch.cat([value.reshape(-1) for value in values])

        return Row(run, check, network.steps)

    return prepare


def gather():
    table, indices = map(torch.from_numpy, INPUTS["gather"]())
    return Row(lambda repetition: torch.index_select(table, 0, indices))


PEERS = {
    "torch": {
        "elementwise": eager("elementwise", root_minus_log),
        "linspace": lambda: Row(lambda i: root_minus_log(torch.linspace(0, 100, 10 * MILLION + i))),
        "random100m": lambda: Row(random100m, same_numbers=False),
        **{f"matmul{kind}": eager(f"matmul{kind}", torch.matmul) for kind in ("1024", "2048", "4096", "_small")},
        "softmax": eager("softmax", lambda x: torch.softmax(x, -1)),
        "layer_norm": eager("layer_norm", lambda x, scale, bias: functional.layer_norm(x, (1024,), scale, bias, 1e-5)),
        "sum": eager("sum", torch.sum),
        "sum_axis0": eager("sum_axis0", lambda x: x.sum(0)),
        "sum_axis1": eager("sum_axis1", lambda x: x.sum(1)),
        "transpose_add": eager("transpose_add", lambda x: x + x.T),
        "broadcast": eager("broadcast", lambda x, row, column: x * row + column),
        "gather": gather,
        "dependent_adds": eager("dependent_adds", dependent_adds),
        "startup": lambda: startup("import torch; print(*(torch.tensor([1., 2.]) + torch.tensor([3., 4.])).tolist())"),
        **{name: step(name) for name in NETWORKS},
    }
}
