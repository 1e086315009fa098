#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes lm_fixture.json: what other people's code makes of SmolLM2-135M-Instruct.

    pip install torch==2.13.0 transformers accelerate gguf    # the CPU build is enough
    python3 make_lm_fixture.py MODEL.gguf lm_fixture.json

ids      Hugging Face `tokenizers` with the file's vocabulary and merges. The rule for words is
         the one that SmolLM2 was trained with, single digits and then byte level; the one that
         `transformers` makes up from a GGUF file lacks the digits.
invalid  bytes that are no UTF-8: each one counts as a symbol for the rule, and goes through the
         merges as itself. That rule is ours; the words and the merges are still theirs.
numbers  `transformers` in float32 on the dequantised weights: the five most likely next tokens
         with their logits, and the mean negative log-likelihood of a page of Debian's GPL-3.
"""

import hashlib
import importlib.metadata
import json
import pathlib
import sys

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM

PAGE, PAGE_BYTES = "/usr/share/common-licenses/GPL-3", 4000

PROMPTS = [
    "The capital of France is",
    "Once upon a time",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 4, 5,",
    "<|im_start|>user\nWhat is attention?<|im_end|>\n<|im_start|>assistant\n",
    "Ünïcödé and 日本語 🙂 are",
    "To be, or not to be, that is the question:\nWhether 'tis nobler in the mind to suffer",
    " ".join(["the cat sat on the mat and"] * 40),
]

ODD = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", "\t", "\r\n", "a", " a", "a ", "  a", "a  ",
    "a  b", "a   b", "a\nb", "a \n b", "a\n\nb", "a\tb", "\u00a0", "a\u00a0b", "\u3000a",
    "\u2003 a",
    "\u180ea", " \u180e a", "\u0085", "a\u0085 b", "\u200b", "a\u200bb", "\u200d", "\ufeffBOM",
    "\x00",
    "a\x00b", "\x01\x02\x03", "\x07bell", "\x1b[0m", "\x7f", "hello", "Hello, world!", "HELLO",
    "hElLo",
    "I'm you're he's we'll they'd I've don't", "I'M YOU'RE", "'s", "''s", " 's", "'S", "'", "' '",
    "rock'n'roll",
    "it\u2019s", "naïve café", "Crème brûlée", "e\u0301", "Å\u030a", "straße", "ﬁne", "Ελλάδα",
    "Привет, мир",
    "שלום", "مرحبا بالعالم", "नमस्ते", "ไทย", "日本語テキスト", "中文，标点。", "한국어", "ㄱㄴ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "𐍈", "🙂", "🙂🙂", " 🙂", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "a🙂b", "1🙂2", "0", "1", "12",
    "123456789", " 1", "  1", "1 2", "1  2", "a1", "1a", "a 1", "a  1", "v1.2.3", "3.14159", "-1",
    "1e-5", "1,000,000",
    "0x1F", "½ ¾", "²³", "Ⅷ", "٣٤", "一二三", "①②", "x²+y²", "$5.00", "50%", "#1", "@user", "a_b_c",
    "__init__",
    "camelCase", "snake_case_name", "int main() { return 0; }", "for (int i = 0; i < n; ++i)",
    "if x == 'a':\n    return {\n        \"k\": [1, 2]\n    }", "#include <vector>",
    "std::vector<std::string> v{};",
    "a->b.c[0]", "\\d+\\s*", "/* comment */", "// comment", "<!-- html -->", "<a href=\"x\">",
    "SELECT * FROM t;",
    "https://example.org/a?b=c&d=e#f", "user@example.org", "C:\\path\\file", "~/dir/*.txt",
    "x == y != z <= w",
    "...", "…", "--", "—", "!!!", "?!?!", "(((", ")))", "[]{}", "\"quoted\"", "“quoted”",
    "«quoted»", "`code`", "```\ncode\n```",
    "- item\n- item", "| a | b |", "a/b", "a\\b", "a|b", "a~b", "^a", "a*b**c", "=====", "-----",
    "_____", "\n\n\n", "    ",
    "        indented", "\t\tindented", "trailing   ", "\n\n  mixed \t \n", "a" * 40, "ab" * 30,
    " " * 40, "\n" * 20, "é" * 15,
    "supercalifragilisticexpialidocious", "Donaudampfschifffahrtsgesellschaft", "zzzzzzzz",
    "qwxjkvbz",
    "The quick brown fox jumps over the lazy dog.", "<", ">", "<|", "|>", "<||>", "<|im_end",
    "im_end|>", "<|im_ end|>",
    "<|IM_END|>", "<reponame", "< reponame>", "\u0301", "\ud7ff", "\ue000", "\uffff",
    "\U0010fffd", "\U0001f9ff",
]

INVALID = [
    "ff", "fe", "80", "bf", "c0", "c080", "c1bf", "c2", "e2", "e280", "e6ad", "eda080", "edbfbf",
    "f0", "f09f", "f09f99",
    "f4908080", "f58080", "f8888080", "61ff62", "20ff20", "61e6ad62", "2180", "2180ff21",
    "31c032", "e69ce6ad",
    "c3a9c3", "c3c3a9", "f09f9982f09f99", "00ff00", "0aff0a", "2773ff", "6180", "04", "6104",
    "0613", "f1808080",
]


def read_file(path):
    fields = GGUFReader(path).fields
    text = lambda key: [bytes(fields[key].parts[i]).decode() for i in fields[key].data]
    kinds = [int(fields["tokenizer.ggml.token_type"].parts[i][0])
             for i in fields["tokenizer.ggml.token_type"].data]
    return text("tokenizer.ggml.tokens"), text("tokenizer.ggml.merges"), kinds


def make_tokenizer(tokens, merges, split):
    pairs = [tuple(line.split(" ")) for line in merges]
    result = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=pairs))
    result.pre_tokenizer = split
    result.decoder = decoders.ByteLevel()
    return result


def encode_bytes(tokenizer, data, size):
    """Ids of any bytes; a byte without a token is size + byte, and nothing joins across it."""
    letters = alphabet()
    shadow, i = "", 0
    places = []  # of each character of the shadow
    while i < len(data):
        for n in (1, 2, 3, 4):
            try:
                shadow += data[i:i + n].decode()
                break
            except UnicodeDecodeError:
                pass
        else:
            shadow, n = shadow + "\x01", 1
        places.append(i)
        i += n
    places.append(len(data))
    ids = []
    for _, (begin, end) in tokenizer.pre_tokenizer.pre_tokenize_str(shadow):
        part = ""
        for byte in data[places[begin]:places[end]]:
            if tokenizer.token_to_id(letters[byte]) is None:
                ids += [t.id for t in tokenizer.model.tokenize(part)] + [size + byte]
                part = ""
            else:
                part += letters[byte]
        ids += [t.id for t in tokenizer.model.tokenize(part)] if part else []
    return ids


def alphabet():
    """GPT-2's character for each byte: printable Latin-1 stands for itself."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in prints]
    return {**{b: chr(b) for b in prints}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def special_texts(specials):
    """Specials beside words, spaces, newlines, digits and each other."""
    around = ["", "a", " ", "\n", "1", "word", " word", "\n\n", "é", "🙂", ".", "'s", "  "]
    for i, special in enumerate(specials):
        for k, before in enumerate(around):
            yield before + special + around[(k + i) % len(around)]
        yield special + specials[(i + 1) % len(specials)]
        yield special[:-1] + special
        yield "x" + special * 2 + " y " + special.upper()


def main():
    path, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tokens, merges, kinds = read_file(path)
    specials = [t for t, kind in zip(tokens, kinds) if kind == 3]
    digits = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)])
    plain = make_tokenizer(tokens, merges, digits)
    gpt2 = make_tokenizer(tokens, merges, pre_tokenizers.ByteLevel(False))
    special = make_tokenizer(tokens, merges, digits)
    special.add_special_tokens([AddedToken(t, normalized=False) for t in specials])

    ids = lambda tokenizer, text: tokenizer.encode(text, add_special_tokens=False).ids
    with_specials = list(special_texts(specials))
    known = lambda text: encode_bytes(plain, text.encode(), len(tokens))
    for text in ODD:  # where every byte has a token, our rule for bytes is theirs
        assert [i for i in known(text) if i < len(tokens)] == ids(plain, text), text

    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    numbers = []
    with torch.no_grad():
        for text in PROMPTS:
            prompt = ids(special, text)
            logits = model(torch.tensor([prompt])).logits[0, -1]
            top = torch.topk(logits, 5)
            numbers.append({"text": text, "ids": prompt, "top": top.indices.tolist(),
                            "logits": [round(x, 6) for x in top.values.tolist()]})
        page = ids(plain, pathlib.Path(PAGE).read_bytes()[:PAGE_BYTES].decode())
        logits = model(torch.tensor([page])).logits[0, :-1].double()
        nll = torch.nn.functional.cross_entropy(logits, torch.tensor(page[1:]))

    lists = {
        "texts": [[t, known(t)] for t in ODD],
        "gpt-2": [[t, ids(gpt2, t)] for t in ODD if any(c.isdigit() for c in t)],
        "special": [[t, ids(special, t)] for t in with_specials],
        "literal": [[t, ids(plain, t)] for t in specials + with_specials[::16]],
        "invalid": [[x, encode_bytes(plain, bytes.fromhex(x), len(tokens))] for x in INVALID],
        "prompts": numbers,
    }
    packages = ("torch", "transformers", "tokenizers", "gguf")
    made = {"model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            **{name: importlib.metadata.version(name) for name in packages}}
    parts = ['"made_with": ' + json.dumps(made)]
    parts += [f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]"
             for key, rows in lists.items()]
    parts.append('"page": ' + json.dumps({"file": PAGE, "bytes": PAGE_BYTES, "tokens": len(page),
                                          "nll": round(nll.item(), 6)}))
    out.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
