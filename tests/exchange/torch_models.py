"""Models by PyTorch: ResNet-18 with torchvision's names, and GPT-2 by transformers, with weights that are not small."""
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet18(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for stage in range(4):
            outputs = width << stage
            first = Block(outputs // 2, outputs, 2) if stage else Block(width, width, 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(first, Block(outputs, outputs, 1)))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet18(width, classes, seed=0):
    """In inference, with statistics of two batches and weights of the norms that are not 1 and 0."""
    torch.manual_seed(seed)
    model = ResNet18(width, classes)
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "bn" in name or "downsample.1" in name:
                value.add_(torch.randn_like(value) * 0.2)
        model.fc.weight.mul_(20)
        for _ in range(2):
            model(torch.randn(4, 3, 64, 64))
    return model.eval()


def gpt2(seed=0, scale=0.15, **sizes):
    """transformers' GPT2LMHeadModel; words with a number above the vocabulary have no meaning here."""
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(bos_token_id=0, eos_token_id=0, pad_token_id=0, **sizes)).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.add_(torch.randn_like(value) * scale)
    return model


def written(model, words, end):
    """The likeliest words behind `words` [1, T], `end` in all, by generate with its cache."""
    with torch.no_grad():
        return model.generate(words, max_new_tokens=end - words.shape[1], min_new_tokens=end - words.shape[1], do_sample=False,
                              suppress_tokens=None, eos_token_id=-1, pad_token_id=0, attention_mask=torch.ones_like(words))
