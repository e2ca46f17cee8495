"""Models with weights of PyTorch's: resnet18 and gpt2 of examples/models give what PyTorch and transformers give."""
import json
import os
import random
import string
import subprocess
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2LMHeadModel

import torch_models

PROGRAM = Path(os.environ["BERTH_LIBRARY"]).parent / "tests/exchange_models"
MOST = 1e-4
SMALL = {"vocab_size": 300, "n_positions": 48, "n_embd": 96, "n_layer": 3, "n_head": 4}


def berth(*arguments, given=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def refused(*arguments):
    """The error of a command that fails."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 1, "it was not refused"
    return done.stderr.decode()


def expect(found, wanted, what):
    wanted = wanted.detach().numpy()
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    worst = float(np.abs(found - wanted).max())
    print(f"{what}: {worst:.2g} at most, of logits up to {float(np.abs(wanted).max()):.2g}")
    assert worst <= MOST, worst


def contiguous(state):
    return {name: value.detach().clone().contiguous() for name, value in state.items()}


def save_shards(state, folder):
    """As Hugging Face lays them out."""
    names = list(state)
    parts = [names[::3], names[1::3], names[2::3]]
    where = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        save_file({name: state[name] for name in part}, folder / file)
        where |= {name: file for name in part}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return index


def files_of(state, folder):
    """The same weights in each form; and rounded ones, with what they were rounded to."""
    save_file(state, folder / "model.safetensors")
    torch.save(state, folder / "model.pt")
    yield folder / "model.safetensors", state, "safetensors"
    yield folder / "model.pt", state, ".pt"
    yield save_shards(state, folder), state, "shards"
    for dtype in torch.bfloat16, torch.float16:
        rounded = {name: value.to(dtype) if value.is_floating_point() else value for name, value in state.items()}
        save_file(rounded, folder / "rounded.safetensors")
        yield folder / "rounded.safetensors", {name: value.float() if value.is_floating_point() else value for name, value in rounded.items()}, str(dtype)


# ---- ResNet-18


def images(folder, count, side):
    x = torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(1))
    np.save(folder / "x.npy", x.numpy())
    return x


def check_resnet18(folder):
    model, x = torch_models.resnet18(8, 10), images(folder, 3, 70)
    for path, state, what in files_of(contiguous(model.state_dict()), folder):
        model.load_state_dict(state)
        berth("resnet18", path, folder / "x.npy", folder / "y.npy")
        expect(np.load(folder / "y.npy"), model(x), f"resnet18, {what}")


def check_resnet18_of_full_size(folder):
    model, x = torch_models.resnet18(64, 1000), images(folder, 1, 224)
    save_file(contiguous(model.state_dict()), folder / "model.safetensors")
    berth("resnet18", folder / "model.safetensors", folder / "x.npy", folder / "y.npy")
    expect(np.load(folder / "y.npy"), model(x), "resnet18 of full size")


def check_resnet18_goes_back(folder):
    model, x = torch_models.resnet18(4, 5), images(folder, 1, 64)
    state = contiguous(model.state_dict())
    save_file(state, folder / "model.safetensors")
    berth("resnet18", folder / "model.safetensors", folder / "x.npy", folder / "y.npy", folder / "saved.safetensors")
    saved = load_file(folder / "saved.safetensors")
    torch_models.resnet18(4, 5, seed=1).load_state_dict(saved)  # strict: the same names and shapes
    assert all(torch.equal(saved[name], value) and saved[name].dtype == value.dtype for name, value in state.items())


def check_resnet18_without_counts(folder):
    model, x = torch_models.resnet18(4, 5), images(folder, 1, 64)
    state = {name: value for name, value in contiguous(model.state_dict()).items() if "num_batches_tracked" not in name}
    save_file(state, folder / "model.safetensors")
    berth("resnet18", folder / "model.safetensors", folder / "x.npy", folder / "y.npy")
    expect(np.load(folder / "y.npy"), model(x), "resnet18 without counts of batches")


# ---- GPT-2


def words_of(folder, batch, count, vocabulary):
    words = torch.randint(0, vocabulary, (batch, count), generator=torch.Generator().manual_seed(2))
    np.save(folder / "words.npy", words.numpy().astype(np.int32))
    return words


def check_gpt2(folder):
    model, words = torch_models.gpt2(**SMALL), words_of(folder, 2, 40, 300)
    state = {name: value for name, value in contiguous(model.state_dict()).items() if name != "lm_head.weight"}
    for path, state, what in files_of(state, folder):
        model.load_state_dict(state, strict=False)
        berth("gpt2", path, 4, folder / "words.npy", folder / "y.npy")
        expect(np.load(folder / "y.npy"), model(words).logits, f"gpt2, {what}")


def check_gpt2_saved_by_transformers(folder):
    model, words = torch_models.gpt2(**SMALL), words_of(folder, 1, 48, 300)
    model.save_pretrained(folder / "whole")
    model.save_pretrained(folder / "shards", max_shard_size="200KB")
    for path in folder / "whole/model.safetensors", folder / "shards/model.safetensors.index.json":
        berth("gpt2", path, 4, folder / "words.npy", folder / "y.npy")
        expect(np.load(folder / "y.npy"), model(words).logits, f"gpt2, {path.name} by save_pretrained")


def check_gpt2_of_other_names(folder):
    """GPT2Model's, with the masks that old files have; and with the logits' weights, which are the embedding."""
    model, words = torch_models.gpt2(**SMALL), words_of(folder, 1, 20, 300)
    state = contiguous(model.transformer.state_dict())
    for block in range(3):
        state[f"h.{block}.attn.bias"] = torch.tril(torch.ones(48, 48)).view(1, 1, 48, 48)
        state[f"h.{block}.attn.masked_bias"] = torch.tensor(-1e4)
    torch.save(state, folder / "model.pt")
    torch.save(contiguous(model.state_dict()), folder / "tied.pt")
    for path in folder / "model.pt", folder / "tied.pt":
        berth("gpt2", path, 4, folder / "words.npy", folder / "y.npy")
        expect(np.load(folder / "y.npy"), model(words).logits, f"gpt2, {path.name}")
    untied = contiguous(model.state_dict())
    untied["lm_head.weight"][3, 3] += 1
    torch.save(untied, folder / "untied.pt")
    assert 'not in the model: "lm_head.weight"' in refused("gpt2", folder / "untied.pt", 4, folder / "words.npy", folder / "y.npy")


def check_gpt2_goes_back(folder):
    model, words = torch_models.gpt2(**SMALL), words_of(folder, 1, 20, 300)
    model.save_pretrained(folder / "model")
    berth("gpt2", folder / "model/model.safetensors", 4, folder / "words.npy", folder / "y.npy", folder / "model/saved.safetensors")
    os.replace(folder / "model/saved.safetensors", folder / "model/model.safetensors")
    again = GPT2LMHeadModel.from_pretrained(folder / "model")
    assert torch.equal(again(words).logits, model(words).logits)


def check_gpt2_writes(folder):
    """With a cache of keys and values here and there; every place is filled."""
    for seed in range(3):
        model, words = torch_models.gpt2(seed, **SMALL), words_of(folder, 1, 1 + 4 * seed, 300)
        model.save_pretrained(folder / "model")
        berth("write", folder / "model/model.safetensors", 4, 48, folder / "words.npy", folder / "written.npy")
        assert np.load(folder / "written.npy").tolist() == torch_models.written(model, words, 48).tolist()


def check_gpt2_of_full_size(folder):
    """The smallest GPT-2, 124 million parameters."""
    model, words = torch_models.gpt2(scale=0.02, vocab_size=50257), words_of(folder, 1, 64, 50257)
    model.save_pretrained(folder / "model")
    berth("gpt2", folder / "model/model.safetensors", 0, folder / "words.npy", folder / "y.npy")
    with torch.no_grad():
        expect(np.load(folder / "y.npy"), model(words).logits, "gpt2 of full size")
    np.save(folder / "words.npy", words[:, :5].numpy().astype(np.int32))
    berth("write", folder / "model/model.safetensors", 0, 25, folder / "words.npy", folder / "written.npy")
    assert np.load(folder / "written.npy").tolist() == torch_models.written(model, words[:, :5], 25).tolist()


# ---- the tokenizer


def some_text(draw, corpus):
    kind = draw.randrange(5)
    if kind == 0:
        return "".join(draw.choice(" \t\n\u3000\u00a0\x85'sltrevemd.,1ab²½éあ字🙂\u0301\u200d") for _ in range(draw.randrange(1, 60)))
    if kind == 1:
        return "".join(c for c in (chr(draw.randrange(1, 0x3100)) for _ in range(30)))
    if kind == 2:
        return "a<|endoftext|>  b<|endoftext|>" + draw.choice(["<|endoftext|>", " <|endo", "  "])
    at = draw.randrange(len(corpus))
    return corpus[at:at + draw.randrange(1, 400)] or string.ascii_letters


def check_tokenizer(folder):
    corpus = "".join(page.read_text() for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md")))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([corpus, "naïve café ÄÖÜ 日本語 русский текст 123 ½ don't I'll we've they're\n\n  x" * 50], trainers.BpeTrainer(
        vocab_size=2000, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    for name in "one", "two":
        (folder / name).mkdir()
    tokenizer.save(str(folder / "one/tokenizer.json"))
    tokenizer.model.save(str(folder / "two"))  # vocab.json, merges.txt
    draw = random.Random(0)
    texts = [some_text(draw, corpus) for _ in range(2000)]
    for name in "one", "two":
        lines = berth("tokens", folder / name, given="\0".join(texts).encode()).splitlines()
        for text, line in zip(texts, lines, strict=True):
            assert [int(word) for word in line.split()] == tokenizer.encode(text).ids, repr(text)
