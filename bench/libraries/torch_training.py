"""Training steps of models in PyTorch: what src/cli/bench_training.c does, and the models of src/cli/bench_models.c."""
import torch
from torch.nn import functional

from common import CHECKED_STEPS, DEVICE, MODELS, Row, model_parameters


def training(inputs, parameters, loss_of, rate, autocast=False):
    """Steps of SGD. parameters(): NumPy arrays. Integers are widened, as PyTorch's losses want them."""

    def prepare():
        given = [torch.from_numpy(x).to(DEVICE) for x in inputs]
        given = [x if x.is_floating_point() else x.long() for x in given]
        values = [torch.tensor(value, device=DEVICE, requires_grad=True) for value in parameters()]
        optimizer = torch.optim.SGD(values, lr=rate)

        def run(repetition):
            optimizer.zero_grad()
            with torch.autocast(DEVICE, torch.bfloat16, enabled=autocast):
                loss = loss_of(values, *given)
            loss.backward()
            optimizer.step()
            return loss

        def check():
            with torch.no_grad():
                for value, start in zip(values, parameters()):
                    value.copy_(torch.from_numpy(start))
            return torch.stack([run(0).detach() for _ in range(CHECKED_STEPS)])

        return Row(run, check)

    return prepare


def conv_block(x, w, b):
    return functional.max_pool2d(functional.relu(functional.conv2d(x, w, b, padding=1)), 2)


def conv_loss(p, x, y):
    x = conv_block(conv_block(x, p[0], p[1]), p[2], p[3]).flatten(1)
    x = functional.relu(torch.addmm(p[5], x, p[4]))
    return functional.cross_entropy(torch.addmm(p[7], x, p[6]), y)


def vae_loss(p, x, noise):
    h = functional.relu(torch.addmm(p[1], x, p[0]))
    mean, log_variance = torch.addmm(p[3], h, p[2]), torch.addmm(p[5], h, p[4])
    z = mean + noise * torch.exp(0.5 * log_variance)
    logits = torch.addmm(p[9], functional.relu(torch.addmm(p[7], z, p[6])), p[8])
    pixels = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    return (pixels - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()) / len(x)


def model_step(row, loss_of):
    inputs, _, rate = MODELS[row]
    return training(inputs, lambda: model_parameters(row), loss_of, rate)


MODEL_ROWS = {"conv_step": model_step("conv_step", conv_loss), "vae_step": model_step("vae_step", vae_loss)}
