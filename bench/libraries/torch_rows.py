import os
from functools import partial

import torch
from torch.nn import functional

from common import (ADDS, CALLS, CHECKED_STEPS, CONVS, DEVICE, GRAPH_CALLS, GRU_HIDDEN, GRU_INPUT, INPUTS, KERNELS, LINEAR_KINDS, LINEAR_SIDES, MILLION, NETWORKS,
                    PLACES, PRODUCT_SIDES, TOKENS, Row, batch, gru_inputs, parameters, plain, resnet18, startup, thin_products)
from torch_gpt import gpt_step
from torch_gpt2 import gpt2_prompt, gpt2_token
from torch_training import MODEL_ROWS

torch.set_num_threads(int(os.environ["BERTH_BENCH_THREADS"]))
torch.backends.cudnn.allow_tf32 = False  # true float32 in nn.GRU too, as in matrix products
VERSIONS = {"PyTorch": torch.__version__}


def wait(result):
    if DEVICE != "cpu":
        torch.cuda.synchronize()
    return result


def to_numpy(result):
    result = result.detach().cpu()
    return (result.float() if result.dtype == torch.bfloat16 else result).numpy()


def tensor(array):
    return torch.from_numpy(array).to(DEVICE)


def eager(row, function):
    return lambda: plain(row, function, tensor)


def gradients(row, function):
    """Of all inputs but the last one, which is the gradient of the result."""

    def prepare():
        *values, d = map(tensor, INPUTS[row]())
        for value in values:
            value.requires_grad_()

        def run(repetition):
            return list(torch.autograd.grad(function(*values), values, d))

        return Row(run, lambda: torch.cat([x.reshape(-1) for x in run(0)]))

    return prepare


def conv(row):
    *_, groups, _, stride, padding = CONVS[row]
    return partial(torch.nn.functional.conv2d, stride=stride, padding=padding, groups=groups)


def conv_gradients():
    """The result too."""
    x, w, d = map(tensor, INPUTS["conv_grad"]())
    x.requires_grad_(), w.requires_grad_()

    def run(repetition):
        y = conv("conv3x3")(x, w)
        return [y, *torch.autograd.grad(y, (x, w), d)]

    return Row(run, lambda: torch.cat([part.detach().reshape(-1) for part in run(0)]))


def attention_gradients():
    """The result too."""
    q, k, v, d = map(tensor, INPUTS["attention_grad"]())
    given = [x.requires_grad_() for x in (q, k, v)]

    def run(repetition):
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return [y, *torch.autograd.grad(y, given, d)]

    return Row(run, lambda: torch.cat([part.detach().reshape(-1) for part in run(0)]))


def kv_cache():
    q, k, v, keys, values = map(tensor, INPUTS["kv_cache"]())
    out = torch.empty_like(q)

    def run(repetition):
        with torch.no_grad():
            for token in range(TOKENS):
                place = PLACES - TOKENS + token
                keys[:, :, place:place + 1] = k[token]
                values[:, :, place:place + 1] = v[token]
                out[token] = functional.scaled_dot_product_attention(q[token], keys[:, :, :place + 1], values[:, :, :place + 1])
        return out

    return Row(run, steps=TOKENS)


def conv_and_norm(x, w, stride, scale, bias):
    y = functional.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)
    return functional.batch_norm(y, torch.zeros_like(bias), torch.ones_like(bias), scale, bias, False, eps=1e-12)


def network(x, weights):
    with torch.no_grad():
        return resnet18(conv_and_norm, lambda x: functional.max_pool2d(x, 3, 2, 1), functional.relu_, lambda x: x.mean((2, 3)), x, weights)


def root_minus_log(x):
    return x**0.5 - torch.log(torch.abs(x))


def unit_vectors(x):
    return x / (x * x).sum(1, keepdim=True).sqrt()


def accelerations(x):
    apart = x[None] - x[:, None]
    square = (apart * apart).sum(2, keepdim=True) + 0.01
    return (apart / (square * square.sqrt())).sum(1)


def layer_norm(x, scale, bias):
    return functional.layer_norm(x, (1024,), scale, bias, 1e-5)


def dependent_adds(x, y):
    for _ in range(ADDS):
        x = x + y
    return x


def drawn(function):
    """By the generator that goes on; what is compared is what a new one draws."""
    return Row(lambda repetition: function(), lambda: function(generator=torch.Generator(DEVICE).manual_seed(0)), same_numbers=False)


def random100m(repetition):
    return (torch.rand(100 * MILLION, device=DEVICE) ** 2 - 0.5) ** 3 - 0.2


def step(name):
    network = NETWORKS[name]

    def loss_of(values, x, y):
        for i in range(0, len(values), 2):
            x = torch.addmm(values[i + 1], x, values[i])
            if i + 2 < len(values):
                x = functional.relu(x)
        return functional.mse_loss(x, y) if network.squares else functional.cross_entropy(x, y)

    def prepare():
        x, y = map(tensor, batch(network))
        y = y if network.squares else y.long()
        values = [torch.tensor(value, device=DEVICE, requires_grad=True) for value in parameters(network)]
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
                    value.copy_(tensor(start))
            run(0, CHECKED_STEPS)
            return torch.cat([value.reshape(-1) for value in values])

        return Row(run, check, network.steps)

    return prepare


def embedding_grad():
    table, indices, d = map(tensor, INPUTS["embedding_grad"]())
    table.requires_grad_()
    return Row(lambda repetition: torch.autograd.grad(functional.embedding(indices, table), table, d)[0])


def gather(row):
    return eager(row, lambda table, indices: torch.index_select(table, 0, indices))


# ---- loops


def gru_layer():
    """Inputs, and nn.GRU with the weights of gru_inputs: it keeps them transposed."""
    x, *values = map(tensor, gru_inputs())
    layer = torch.nn.GRU(GRU_INPUT, GRU_HIDDEN, device=DEVICE)
    with torch.no_grad():
        for name, value in zip(("weight_ih_l0", "bias_ih_l0", "weight_hh_l0", "bias_hh_l0"), values):
            getattr(layer, name).copy_(value.T if value.ndim == 2 else value)
    return x, layer


def gru_forward():
    x, layer = gru_layer()

    def run(repetition):
        with torch.no_grad():
            return layer(x)[0]

    return Row(run)


def gru_step():
    x, layer = gru_layer()
    x.requires_grad_()
    wanted = [x, layer.weight_ih_l0, layer.bias_ih_l0, layer.weight_hh_l0, layer.bias_hh_l0]

    def run(repetition):
        rows = layer(x)[0]
        loss = (rows * rows).sum()
        return [loss, *torch.autograd.grad(loss, wanted)]

    def check():
        loss, dx, *grads = run(0)
        return torch.cat([loss.reshape(1), dx.reshape(-1), *((grad.T if grad.ndim == 2 else grad).reshape(-1) for grad in grads)])

    return Row(run, check)


# ---- products in each precision, launches


def product(row, kind):
    """PyTorch rounds float32 inputs to TF32 when told so, and to bfloat16 not at all."""

    def multiply(a, b):
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        result = torch.matmul(a, b)
        torch.backends.cuda.matmul.allow_tf32 = False
        return result

    return lambda: plain(row, multiply, (lambda array: tensor(array).bfloat16()) if kind == "bf16" else tensor)


# ---- copies from and to the host


def upload(row, pinned):
    def prepare():
        host = torch.from_numpy(INPUTS[row]()[0])
        if pinned:
            host = host.pin_memory()
        return Row(lambda repetition: host.to(DEVICE, non_blocking=pinned))

    return prepare


def download(row, pinned):
    """Into memory that is there, as berth's bt_read."""

    def prepare():
        x = tensor(INPUTS[row]()[0])
        host = torch.ones(x.shape, pin_memory=pinned)
        return Row(lambda repetition: host.copy_(x, non_blocking=pinned))

    return prepare


def add_ones(x, kernels):
    for _ in range(kernels):
        x = x + 1
    return x


def calls(row, kernels, count):
    def prepare():
        x = tensor(INPUTS[row]()[0])

        def run(repetition):
            for _ in range(count):
                result = add_ones(x, kernels)
            return result

        return Row(run, steps=count)

    return prepare


def graph_calls():
    x = tensor(INPUTS["launch_graph"]()[0])
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        add_ones(x, KERNELS)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = add_ones(x, KERNELS)

    def run(repetition):
        for _ in range(GRAPH_CALLS):
            graph.replay()
        return result

    return Row(run, steps=GRAPH_CALLS)


LINEAR = {"cholesky": torch.linalg.cholesky, "solve": torch.linalg.solve, "inv": torch.linalg.inv, "qr": lambda x: torch.linalg.qr(x)[1].abs(),
          "eigh": lambda x: torch.linalg.eigh(x)[0], "svd": lambda x: torch.linalg.svd(x, full_matrices=False)[1]}
PEERS = {
    "torch": {
        "elementwise": eager("elementwise", root_minus_log),
        "linspace": lambda: Row(lambda i: root_minus_log(torch.linspace(0, 100, 10 * MILLION + i, device=DEVICE))),
        "random100m": lambda: Row(random100m, same_numbers=False),
        **{f"matmul{kind}": eager(f"matmul{kind}", torch.matmul) for kind in ("1024", "2048", "4096", "_small")},
        "softmax": eager("softmax", lambda x: torch.softmax(x, -1)),
        "layer_norm": eager("layer_norm", layer_norm),
        "sum": eager("sum", torch.sum),
        "sum_axis0": eager("sum_axis0", lambda x: x.sum(0)),
        "short_rows": eager("short_rows", unit_vectors),
        "narrow_sums": eager("narrow_sums", lambda x: x.sum(0)),
        "nbody": eager("nbody", accelerations),
        "sum_axis1": eager("sum_axis1", lambda x: x.sum(1)),
        "transpose_add": eager("transpose_add", lambda x: x + x.T),
        "broadcast": eager("broadcast", lambda x, row, column: x * row + column),
        "gather": gather("gather"),
        "thin_product": eager("thin_product", thin_products),
        "fft": eager("fft", torch.fft.fft),
        "fft_lines": eager("fft_lines", torch.fft.fft),
        "cholesky": eager("cholesky", torch.linalg.cholesky),
        **{f"{kind}_{n}": eager(f"{kind}_{n}", LINEAR[kind]) for kind in LINEAR_KINDS for n in LINEAR_SIDES},
        "inv_many": eager("inv_many", torch.linalg.inv),
        "scatter_rows": eager("scatter_rows", lambda x, indices, rows: x.index_add(0, indices, rows)),
        "embedding_grad": embedding_grad,
        "dependent_adds": eager("dependent_adds", dependent_adds),
        "sort4m": eager("sort4m", lambda x: torch.sort(x)[0]),
        "sort_rows": eager("sort_rows", lambda x: torch.sort(x)[0]),
        "topk": eager("topk", lambda x: torch.topk(x, 5)[0]),
        "permutation": lambda: drawn(partial(torch.randperm, MILLION, dtype=torch.int32, device=DEVICE)),
        "normal": lambda: drawn(partial(torch.randn, 10 * MILLION, device=DEVICE)),
        "layer_norm_gradient": gradients("layer_norm_gradient", layer_norm),
        "softmax_gradient": gradients("softmax_gradient", lambda x: torch.softmax(x, -1)),
        **{row: eager(row, conv(row)) for row in CONVS},
        "attention": eager("attention", functional.scaled_dot_product_attention),
        "attention_causal": eager("attention_causal", partial(functional.scaled_dot_product_attention, is_causal=True)),
        "attention_grad": attention_gradients,
        "kv_cache": kv_cache,
        "conv_grad": conv_gradients,
        **{row: eager(row, network) for row in ("resnet18", "resnet18_one")},
        "startup": lambda: startup(f"import torch as t; t.set_default_device('{DEVICE}'); "
                                   "print(*(t.tensor([1., 2.]) + t.tensor([3., 4.])).tolist())"),
        **{name: step(name) for name in NETWORKS},
        **MODEL_ROWS,
        "gpt_step": gpt_step(False),
        "gpt_step_bf16": gpt_step(True),
        "gpt2_prompt": gpt2_prompt,
        "gpt2_token": gpt2_token,
        "gru_forward": gru_forward,
        "gru_step": gru_step,
    }
}
PEERS["torch"] |= {
    **{f"large_{row}": eager(f"large_{row}", function) for row, function in {
        "elementwise": root_minus_log, "sum": torch.sum, "softmax": lambda x: torch.softmax(x, -1), "layer_norm": layer_norm,
        "transpose_add": lambda x: x + x.T}.items()},
    "large_gather": gather("large_gather"),
    **{f"matmul_{kind}_{n}": product(f"matmul_{kind}_{n}", kind) for kind in ("f32", "tf32", "bf16") for n in PRODUCT_SIDES},
    "launch": calls("launch", 1, CALLS),
    "launch_100": calls("launch_100", KERNELS, GRAPH_CALLS),
    **({"launch_graph": graph_calls} if DEVICE != "cpu" else {}),
    **({"upload": upload("upload", False), "upload_pinned": upload("upload_pinned", True), "download": download("download", False),
        "download_pinned": download("download_pinned", True)} if DEVICE != "cpu" else {}),
}
