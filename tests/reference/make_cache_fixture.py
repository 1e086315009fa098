#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cache_fixture.json: which tokens bounded caches keep of a real text, by plain loops.

    pip install torch==2.13.0 transformers accelerate gguf    # the CPU build is enough
    python3 make_cache_fixture.py MODEL.gguf cache_fixture.json
    python3 make_cache_fixture.py MODEL.gguf --perplexity TEXT [TOKENS]

The model is that of make_lm_fixture.py: `transformers`, eager attention, float32, dequantised
weights. It reads token by token, each with its position in the text; after each, this script ranks
what a layer holds by the weights that `transformers` returns, and takes the losers out of its
DynamicCache. Nothing of heed's is used. Rules (Oren et al., arXiv 2401.06104; Zhang et al.,
arXiv 2306.14048); all attend first and then evict, and the older of equals goes:

window+4  the first 4 tokens and the newest stay.
tova      the token with the least weight of the current query goes, by the mean over all query
          heads: one set per layer. The current token may go.
h2o       the newest half of the budget stays; of the others goes the least sum of the weights of
          all queries since the token came, its own included: one set per kv head, by the sum over
          its query heads.
one shot  the prompt is read whole, and then all that is too much goes at once, by the last row
          (tova) or by the sums of all rows (h2o).

Every eviction has a margin: 1 - score of the last that goes / score of the first that stays. Where
it is below MARGIN, other code may decide otherwise; these are listed as [layer, kv head, tokens
read, margin]. MARGIN is just above the most that float64, tried in the place of float32, moved one
of tova's.
"""

import hashlib
import importlib.metadata
import json
import math
import pathlib
import sys

import torch
from make_lm_fixture import make_tokenizer, read_file
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, DynamicCache

BUDGET, SINKS = 64, 4
PROMPT, FOLLOWING, EVERY = 224, 64, 8  # tokens
MARGIN = 3e-5

# Jane Austen, Emma, 1815.
TEXT = """\
Emma Woodhouse, handsome, clever, and rich, with a comfortable home and happy disposition, seemed \
to unite some of the best blessings of existence; and had lived nearly twenty-one years in the \
world with very little to distress or vex her.

She was the youngest of the two daughters of a most affectionate, indulgent father; and had, in \
consequence of her sister's marriage, been mistress of his house from a very early period. Her \
mother had died too long ago for her to have more than an indistinct remembrance of her caresses; \
and her place had been supplied by an excellent woman as governess, who had fallen little short of \
a mother in affection.

Sixteen years had Miss Taylor been in Mr. Woodhouse's family, less as a governess than a friend, \
very fond of both daughters, but particularly of Emma. Between them it was more the intimacy of \
sisters. Even before Miss Taylor had ceased to hold the nominal office of governess, the mildness \
of her temper had hardly allowed her to impose any restraint; and the shadow of authority being \
now long passed away, they had been living together as friend and friend very mutually attached, \
and Emma doing just what she liked; highly esteeming Miss Taylor's judgment, but directed chiefly \
by her own.

The real evils, indeed, of Emma's situation were the power of having rather too much her own way, \
and a disposition to think a little too well of herself; these were the disadvantages which \
threatened alloy to her many enjoyments.
"""


class Bounded:
    """A model that forgets: policy is window, tova or h2o, sinks always stay."""

    def __init__(self, model, policy, sinks=0):
        self.model, self.policy, self.sinks = model, policy, sinks
        self.layers, self.heads = model.config.num_hidden_layers, model.config.num_key_value_heads
        self.banks = self.heads if policy == "h2o" else 1  # sets of tokens per layer
        self.cache, self.read = DynamicCache(), 0
        each = lambda: [[[] for _ in range(self.banks)] for _ in range(self.layers)]
        self.kept = each()  # positions, ascending
        self.sums = each()  # of weights, for each of them
        self.margins = []   # [layer, bank, tokens read, margin]

    def __call__(self, ids):
        """Reads tokens in one piece; their logits [tokens, vocabulary]."""
        n = len(ids)
        assert n == 1 or self.read == 0
        fresh = list(range(self.read, self.read + n))
        out = self.model(torch.tensor([ids]), position_ids=torch.tensor([fresh]),
                         cache=self.cache, use_cache=True, output_attentions=True)
        self.read += n
        for layer, weights in enumerate(out.attentions):  # [1, heads, n, keys]
            self.evict(layer, weights[0].double(), fresh)
        return out.logits[0]

    def evict(self, layer, weights, fresh):
        weights = weights.unflatten(0, (self.banks, -1))  # [banks, heads, n, keys]
        last = weights[:, :, -1].mean(1).tolist()
        every = weights.sum((1, 2)).tolist()
        stay = []
        for bank in range(self.banks):
            kept = self.kept[layer][bank] + fresh
            sums = self.sums[layer][bank] + [0.0] * len(fresh)
            assert len(kept) == len(every[bank])
            sums = [a + b for a, b in zip(sums, every[bank])]
            score = {"window": kept, "tova": last[bank], "h2o": sums}[self.policy]
            newest = BUDGET // 2 if self.policy == "h2o" else 0
            free = [i for i in range(len(kept) - newest) if kept[i] >= self.sinks]
            free.sort(key=lambda i: (score[i], kept[i]))
            goes = max(0, len(kept) - BUDGET)
            if goes > 0 and self.policy != "window":
                margin = 1 - score[free[goes - 1]] / score[free[goes]]
                self.margins.append((layer, bank, self.read, margin))
            stay.append([i for i in range(len(kept)) if i not in free[:goes]])
            self.kept[layer][bank] = [kept[i] for i in stay[-1]]
            self.sums[layer][bank] = [sums[i] for i in stay[-1]]
        if len(kept) <= BUDGET:
            return
        of = self.cache.layers[layer]  # keys and values [1, kv heads, tokens, dim]
        ranks = torch.tensor(stay).expand(self.heads, BUDGET)
        take = lambda x: x.gather(2, ranks[None, :, :, None].expand(1, -1, -1, x.shape[3]))
        of.keys, of.values = take(of.keys), take(of.values)


def ranges(positions):
    """1, 2, 3, 7 as "1-3 7"."""
    parts = []
    for p in positions:
        if parts and parts[-1][1] == p - 1:
            parts[-1][1] = p
        else:
            parts.append([p, p])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def follow(model, ids, policy, sinks, one_shot):
    """What is held after the prompt and every few tokens, with the likeliest next tokens."""
    bounded = Bounded(model, policy, sinks)
    states = []
    for i, token in enumerate(ids):
        if one_shot and i < PROMPT:
            if i + 1 < PROMPT:
                continue
            logits = bounded(ids[:PROMPT])[-1]
        else:
            logits = bounded([token])[-1]
        if i + 1 >= PROMPT and (i + 1 - PROMPT) % EVERY == 0:
            top = torch.topk(logits, 5)
            states.append({"tokens": i + 1, "top": top.indices.tolist(),
                           "logits": [round(x, 6) for x in top.values.tolist()],
                           "kept": [[ranges(bank) for bank in layer] for layer in bounded.kept]})
    least = min((m[3] for m in bounded.margins), default=math.inf)
    close = [[*m[:3], float(f"{m[3]:.3g}")] for m in bounded.margins if m[3] < MARGIN]
    print(f"{policy} one_shot={one_shot}: {len(bounded.margins)} evictions, "
          f"least margin {least:.3g}, {len(close)} below {MARGIN}", file=sys.stderr)
    return {"evictions": len(bounded.margins), "close": close, "states": states}


def perplexity(model, ids, policy, sinks):
    bounded, nats = Bounded(model, policy, sinks), 0.0
    for token, following in zip(ids, ids[1:]):
        nats -= torch.log_softmax(bounded([token])[-1].double(), 0)[following].item()
    return math.exp(nats / (len(ids) - 1))


def check(model, ids):
    """Token by token, with nothing evicted, is the whole text at once."""
    bounded = Bounded(model, "window")
    found = torch.stack([bounded([token])[-1] for token in ids[:BUDGET]])
    wanted = model(torch.tensor([ids[:BUDGET]])).logits[0]
    assert (found - wanted).abs().max() < 1e-3


def main():
    path = pathlib.Path(sys.argv[1])
    tokens, merges, _ = read_file(path)
    tokenizer = make_tokenizer(tokens, merges, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]))
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    torch.set_grad_enabled(False)

    if sys.argv[2] == "--perplexity":
        count = int(sys.argv[4]) if len(sys.argv) > 4 else 1024
        ids = encode(pathlib.Path(sys.argv[3]).read_bytes()[:count * 16].decode(errors="ignore"))
        for policy, sinks in (("window", 0), ("window", SINKS), ("h2o", 0), ("tova", 0)):
            name = f"{policy}+{sinks}" if sinks else policy
            found = perplexity(model, ids[:count], policy, sinks)
            print(f"{name}:{BUDGET} {found:.4f}", flush=True)
        return

    ids = encode(TEXT)[:PROMPT + FOLLOWING]
    assert len(ids) == PROMPT + FOLLOWING
    check(model, ids)
    runs = []
    for policy, sinks, one_shot in (("window", SINKS, False), ("tova", 0, False), ("h2o", 0, False),
                                    ("tova", 0, True), ("h2o", 0, True)):
        name = f"{policy}+{sinks}" if sinks else policy
        runs.append({"cache": f"{name}:{BUDGET}", "one_shot": one_shot,
                     **follow(model, ids, policy, sinks, one_shot)})

    packages = ("torch", "transformers", "tokenizers", "gguf")
    made = {"model_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            **{name: importlib.metadata.version(name) for name in packages}}
    lines = []
    for run in runs:
        states = ",\n".join(json.dumps(state) for state in run.pop("states"))
        lines.append(json.dumps(run)[:-1] + ', "states": [\n' + states + "\n]}")
    pathlib.Path(sys.argv[2]).write_text(
        '{\n"made_with": ' + json.dumps(made) + ',\n"prompt": ' + str(PROMPT) + ',\n"ids": ' +
        json.dumps(ids) + ',\n"runs": [\n' + ",\n".join(lines) + "\n]\n}\n")


if __name__ == "__main__":
    main()
