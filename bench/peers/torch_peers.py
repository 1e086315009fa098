#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shapes of forward_bench through PyTorch on one thread, as a comparison.

torch_peers.py [result.json]    needs: pip install torch==2.13.0 (or any 2.x)

plain is scaled_dot_product_attention, which is fused; cope is CoPE as its paper states it
(arXiv 2405.18719, section 4), in whole-matrix operations. Prints milliseconds of the thread's CPU
time, medians; `+backward` includes the gradients of q, k and v (and of CoPE's table).
"""

import json
import math
import statistics
import sys
import time

import torch
import torch.nn.functional as F

HEADS, POSITIONS = 8, 64


def plain(q, k, v, _):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def cope(q, k, v, table):
    """x_ij + q_i . e[p_ij], p_ij = sum of sigmoid(x_im) over j <= m <= i, interpolated."""
    length = q.shape[-2]
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    x = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
    position = torch.sigmoid(x).flip(-1).cumsum(-1).flip(-1).clamp(max=POSITIONS - 1)
    below, above = position.floor(), position.ceil()
    z = q @ table.transpose(-1, -2)
    low, high = z.gather(-1, below.long()), z.gather(-1, above.long())
    part = position - below
    return torch.softmax(x + high * part + low * (1 - part), -1) @ v


def measure(function, length, dim, backward):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, length, dim, requires_grad=backward) for _ in range(3))
    table = (0.1 * torch.randn(POSITIONS, dim)).requires_grad_(backward)
    times = []
    deadline = time.monotonic() + 2
    while len(times) < 3 or (time.monotonic() < deadline and len(times) < 50):
        start = time.thread_time()
        out = function(q, k, v, table)
        if backward:
            out.backward(out.detach())
        times.append(1e3 * (time.thread_time() - start))
    return statistics.median(times[1:])   # the first one warms up


def main():
    torch.set_num_threads(1)
    results = {}
    for dim in (64, 128):
        for length in (512, 1024, 2048, 4096):
            for function in (plain, cope):
                for backward in (False, True):
                    if function is cope and length * (2 if backward else 1) > 4096:
                        continue   # tens of GiB of matrices
                    name = (f"torch/policy:{function.__name__}{'+backward' * backward}"
                            f"/heads:{HEADS}/kv_heads:{HEADS}/len:{length}/dim:{dim}")
                    results[name] = measure(function, length, dim, backward)
                    print(f"{name:76} {results[name]:10.2f} ms", flush=True)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "ms": results}, file, indent=1)


if __name__ == "__main__":
    main()
