#!/usr/bin/env python3
"""Writes tests/models: small models with PyTorch's weights, and what PyTorch and transformers make of inputs, for tests/models_test.c. Needs torch, transformers, tokenizers and safetensors from PyPI:
bench/libraries/sides.py installs them for tests/exchange/run.py models. Everything in it is random; the tokenizer is trained on pages of docs/."""
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests/models"
sys.path.insert(0, str(ROOT / "tests/exchange"))
import torch_models  # noqa: E402

GIVEN, PLACES, WORDS = 5, 24, 300
TEXTS = ["bt_array *x = bt_ones(BT_F32, 2, 3);", "don't  stop\n\n  here, they'll 123 45x", " naïve café 日本語 ½ ٣٤\u3000x", "a<|endoftext|>  b <|endof", "\t\t \r\n", "'s're've'x",
         "🙂\u200d🙂 e\u0301", "the the the array"]


def tokenizer():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pages = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))]
    made.train_from_iterator(pages, trainers.BpeTrainer(vocab_size=WORDS, special_tokens=["<|endoftext|>"], show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return made


def contiguous(state):
    return {name: value.detach().clone().contiguous() for name, value in state.items()}


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "gpt2").mkdir(parents=True)
    expected = {}
    resnet = torch_models.resnet18(2, 7)
    save_file(contiguous(resnet.state_dict()), FOLDER / "resnet18.safetensors")
    expected["images"] = torch.randn(1, 3, 40, 36)
    expected["classes"] = resnet(expected["images"])

    gpt2 = torch_models.gpt2(vocab_size=WORDS, n_positions=PLACES, n_embd=16, n_layer=2, n_head=2, scale=0.3)
    state = {name: value.bfloat16() for name, value in contiguous(gpt2.state_dict()).items() if name != "lm_head.weight"}
    save_file(state, FOLDER / "gpt2/model.safetensors", {"format": "pt"})
    gpt2.load_state_dict({name: value.float() for name, value in state.items()}, strict=False)
    words = torch.randint(0, WORDS, (1, 12))
    expected["words"] = words.int()
    expected["logits"] = gpt2(words).logits
    expected["written"] = torch_models.written(gpt2, words[:, :GIVEN], PLACES).int()
    save_file({name: value.detach().contiguous() for name, value in expected.items()}, FOLDER / "expected.safetensors")

    made = tokenizer()
    made.model.save(str(FOLDER / "gpt2"))
    made.save(str(FOLDER / "tokenizer.json"), pretty=False)
    lines = [" ".join(map(str, made.encode(text).ids)) for text in TEXTS]
    (FOLDER / "texts.json").write_text(json.dumps([{"text": text, "tokens": line} for text, line in zip(TEXTS, lines)], indent=1) + "\n")


main()
