#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the results that bench/run leaves into Markdown tables.

table.py <results> [--into bench/README.md]    the tables go between the README's two markers

A figure is the median of the runs, with the quartiles behind it. Runs during which the machine's
own rate drifted by more than 6 % are left out where others remain.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
LENGTHS, DIMS = (512, 1024, 2048, 4096, 8192), (64, 128)
DRIFT = 0.06


class Results:
    """Every run of every benchmark: results[file][name] is a list of runs."""

    def __init__(self, folder):
        self.folder = folder
        self.context, self.runs, self.count, self.dropped = {}, {}, 0, 0
        for path in sorted(folder.glob("*.json")):
            data = json.loads(path.read_text(encoding="utf-8"))
            if "benchmarks" not in data:
                continue
            if not self.context or path.stem == "forward":
                self.context = data["context"]
            self.runs[path.stem] = self.by_name(data["benchmarks"])

    def by_name(self, benchmarks):
        names = {}
        for run in benchmarks:
            if run["run_type"] != "iteration" or run.get("error_occurred"):
                continue
            name = re.sub(r"/(iterations:\d+|manual_time|repeats:\d+)", "", run["run_name"])
            names.setdefault(name, []).append(run)
        for name, runs in names.items():
            steady = [run for run in runs if run.get("drift", 0) <= DRIFT]
            self.count += len(runs)
            self.dropped += len(runs) - len(steady) if steady else 0
            names[name] = steady or runs
        return names

    def values(self, file, name, what):
        return [run[what] for run in self.runs.get(file, {}).get(name, []) if what in run]

    def median(self, file, name, what):
        values = self.values(file, name, what)
        return statistics.median(values) if values else None


def quartiles(values):
    if len(values) < 2:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def figure(values, scale=1.0, form="{:.2f}"):
    """median (quartiles), or a dash."""
    if not values:
        return "–"
    text = form.format(scale * statistics.median(values))
    spread = quartiles(values)
    if spread:
        text += f" ({form.format(scale * spread[0])}–{form.format(scale * spread[1])})"
    return text


def name_of(what, policy, length, dim, kv_heads=8, more=""):
    return f"{what}/policy:{policy}/heads:8/kv_heads:{kv_heads}/len:{length}/dim:{dim}{more}"


def table(head, rows):
    rows = [row for row in rows if any(cell not in ("–", "") for cell in row[1:])]
    if not rows:
        return []
    line = lambda cells: "| " + " | ".join(cells) + " |"
    return [line(head), "|" + "--|" * len(head)] + [line(row) for row in rows] + [""]


def titled(lines, made):
    """Nothing, where there is no table to stand under the title."""
    return lines + made if made else []


def shell(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine(results):
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", info, re.M))
    context = results.context
    commit = shell("git", "rev-parse", "--short=12", "HEAD") or "unknown"
    if shell("git", "status", "--porcelain", "--", "include"):
        commit += " with changes"
    rates = {}
    for file, names in results.runs.items():
        isa = {"forward-avx2": "avx2", "forward-generic": "generic"}.get(file)
        if file == "forward":
            isa = context["heed_isa"]
        if isa:
            rates[isa] = statistics.median(run["fma_gflops"] for runs in names.values()
                                           for run in runs if "fma_gflops" in run)
    kib = {(c["type"], c["level"]): c["size"] // 1024 for c in context["caches"]}
    caches = ", ".join(f"L{level} {kib[key, level]} KiB" for key, level in
                       (("Data", 1), ("Unified", 2), ("Unified", 3)) if (key, level) in kib)
    return [
        f"* Machine: {fields.get('model name', 'unknown')} (family {fields.get('cpu family')}, "
        f"model {fields.get('model')}), {context['num_cpus']} cores, {caches}; "
        f"{context['date'][:10]}; load {context['load_avg'][0]:.1f} at the start.",
        f"* Build: {context['heed_compiler']}, `{context['heed_flags']}`, Eigen "
        f"{context['heed_eigen']}, level {context['heed_isa']}; commit {commit}.",
        "* Calibrated multiply-add rate, one thread: " +
        (", ".join(f"{isa} {rate:.0f} GF/s" for isa, rate in rates.items()) or "not run") + ".",
        f"* {results.count} runs, of which {results.dropped} were left out because the rate "
        f"drifted by more than {100 * DRIFT:.0f} %.",
        "",
    ]


def prefill(results):
    lines = ["### Plain causal attention: share of the multiply-add rate, and milliseconds", ""]
    columns = [(dim, kv_heads, "") for dim in DIMS for kv_heads in (8, 2)]
    columns += [(dim, 8, "/align:64") for dim in DIMS]
    head = ["T"] + [f"D {dim}, {kv} kv heads" + (", 64-byte aligned" if more else "")
                    for dim, kv, more in columns]
    rows = []
    for length in LENGTHS:
        row = [str(length)]
        for dim, kv_heads, more in columns:
            name = name_of("forward", "plain", length, dim, kv_heads, more)
            share = figure(results.values("forward", name, "fma_share"), 100, "{:.0f}")
            time = results.median("forward", name, "cpu_time")
            row.append(f"{share} %, {time:.2f} ms" if time else "–")
        rows.append(row)
    lines = titled(lines, table(head, rows))
    other = ["The same on other levels (`HEED_ISA`), as a share of the level's own rate:", ""]
    rows = []
    for isa in ("avx2", "generic"):
        for length in (1024, 4096):
            rows.append([f"{isa}, T {length}"] + [
                figure(results.values("forward-" + isa, name_of("forward", "plain", length, dim),
                                      "fma_share"), 100, "{:.0f} %") for dim in DIMS])
    return lines + titled(other, table(["Level", "D 64", "D 128"], rows))


def policies(results):
    lines = ["### Policies: time over plain causal attention on the same tensors", ""]
    names = list(dict.fromkeys(re.match(r"policy/policy:(.*)/heads:", name)[1]
                               for name in results.runs.get("policy", {})))
    columns = [(dim, length) for dim in DIMS for length in (512, 1024, 4096)]
    head = ["Policy"] + [f"D {dim}, T {length}" for dim, length in columns]
    rows = []
    for policy in names:
        row = [policy]
        for dim, length in columns:
            runs = results.runs["policy"].get(name_of("policy", policy, length, dim))
            if not runs:
                row.append("–")
                continue
            run = runs[0]
            cell = (f"{run['over_plain']:.2f} ({run['over_plain_low']:.2f}–"
                    f"{run['over_plain_high']:.2f})")
            if "per_tile" in run:
                cell += f", per tile {run['per_tile']:.2f}"
            row.append(cell)
        rows.append(row)
    return titled(lines, table(head, rows))


def threads(results):
    lines = ["### Two threads over one (wall time)", ""]
    rows = []
    for policy in ("plain", "cope"):
        for length in LENGTHS:
            rows.append([f"{policy}, T {length}"] + [
                figure(results.values("forward", name_of("threads", policy, length, dim),
                                      "speed_up"), 1, "{:.2f}") for dim in DIMS])
    return titled(lines, table(["", "D 64", "D 128"], rows))


def unfused(results):
    lines = ["### Whole-matrix Eigen over heed: the same job, unfused", ""]
    rows = []
    turns = lambda build: [file for file in results.runs if file.startswith(f"turn-{build}-")]
    for policy in ("plain", "cope"):
        for length in LENGTHS:
            row = [f"{policy}, T {length}"]
            for dim in DIMS:
                slow, fast = (results.median("forward", name_of(what, policy, length, dim),
                                             "cpu_time") for what in ("unfused", "forward"))
                row.append(f"{slow / fast:.0f}× ({slow:.0f} ms)" if slow and fast else "–")
            native = [results.median(file, name_of("unfused", policy, length, 64), "cpu_time") /
                      results.median(file, name_of("forward", policy, length, 64), "cpu_time")
                      for file in turns("bench-native")
                      if results.median(file, name_of("unfused", policy, length, 64), "cpu_time")]
            row.append(figure(native, 1, "{:.0f}×"))
            rows.append(row)
    head = ["", "D 64", "D 128", "D 64, both built for this machine only"]
    lines = titled(lines, table(head, rows))

    rows = []
    for policy in ("plain", "cope"):
        for length in (1024, 2048):
            name = name_of("forward", policy, length, 64)
            ratios = []
            for turn in range(1, 6):
                plain_build = results.median(f"turn-bench-{turn}", name, "cpu_time")
                native = results.median(f"turn-bench-native-{turn}", name, "cpu_time")
                if plain_build and native:
                    ratios.append(plain_build / native)
            rows.append([f"{policy}, T {length}", figure(ratios)])
    return lines + titled(["### A plain `-O2` build over `-march=native`", ""],
                          table(["", "D 64"], rows))


def memory(results):
    lines = ["### Scratch memory of a call beyond inputs and outputs, KiB (H 8, D 64)", ""]
    rows = []
    for label, file, what, policy in (("plain", "forward", "forward", "plain"),
                                      ("cope", "forward", "forward", "cope"),
                                      ("rope_halves", "policy", "policy", "rope_halves")):
        rows.append([label] + [
            figure(results.values(file, name_of(what, policy, length, 64), "scratch_kib")[:1], 1,
                   "{:.0f}") for length in LENGTHS])
    return titled(lines, table([""] + [f"T {length}" for length in LENGTHS], rows))


def primitives(results):
    lines = ["### Primitives on one tile of 64 × 64",
             "", "Products: share of the level's multiply-add rate. Others: G elements/s.", ""]
    rows = {}
    for name in results.runs.get("primitive", {}):
        what, isa = re.match(r"primitive/(.*)/isa:(\w+)", name).groups()
        share = results.values("primitive", name, "fma_share")
        cell = (figure(share, 100, "{:.0f} %") if share else
                figure(results.values("primitive", name, "gelements"), 1, "{:.2f}"))
        rows.setdefault(what, {})[isa] = cell
    levels = [isa for isa in ("avx512", "avx2", "generic")
              if any(isa in cells for cells in rows.values())]
    return titled(lines, table(["Primitive"] + levels,
                               [[what] + [cells.get(isa, "–") for isa in levels]
                                for what, cells in rows.items()]))


def compile_time(results):
    path = results.folder / "compile.txt"
    if not path.exists():
        return []
    times = [sum(map(float, line.split())) for line in path.read_text().splitlines()]
    return ["### Compiling a user's file", "",
            f"`bench/compile_time.cpp` (Eigen tensors, three policies), `-O2`, one core: "
            f"{figure(times, 1, '{:.1f}')} s.", ""]


def peers(results):
    path = results.folder / "peers.json"
    if not path.exists():
        return []
    data = json.loads(path.read_text(encoding="utf-8"))
    lines = [f"### PyTorch {data['torch']} over heed, one thread", "",
             "plain: `scaled_dot_product_attention`; cope: the paper's listing.", ""]
    rows = []
    for policy in ("plain", "cope"):
        for length in LENGTHS:
            row = [f"{policy}, T {length}"]
            for dim in DIMS:
                theirs = data["ms"].get(name_of("torch", policy, length, dim))
                ours = results.median("forward", name_of("forward", policy, length, dim),
                                      "cpu_time")
                row.append(f"{theirs / ours:.2f}× ({theirs:.1f} ms)" if theirs and ours else "–")
            rows.append(row)
    return titled(lines, table(["", "D 64", "D 128"], rows))


CACHED = [(heads, dim) for heads in (32, 8) for dim in DIMS]
CACHE_LENGTHS = (512, 4096, 32768)


def cached(results, file, what, policy, heads, dim, length):
    name = f"{file}/policy:{policy}/heads:{heads}/kv_heads:8/len:{length}/dim:{dim}/min_time:0.300"
    return results.median(file, name, what)


def decode(results):
    head = ["Keys"] + [f"D {dim}, {heads}/8 heads" for heads, dim in CACHED]
    rows = []
    for length in CACHE_LENGTHS:
        row = [f"{length}"]
        for heads, dim in CACHED:
            get = lambda what: cached(results, "decode", what, "plain", heads, dim, length)
            if get("bandwidth_share") is None:
                row.append("–")
                continue
            row.append(f"{get('real_time'):.0f} µs, {100 * get('bandwidth_share'):.0f} % of "
                       f"{get('read_GB_per_s'):.0f} GB/s, {100 * get('fma_share'):.0f} %")
        rows.append(row)
    lines = titled(["### One decode step: time, share of the read bandwidth, share of the "
                    "multiply-add rate", ""], table(head, rows))
    for title, file, policies in (
            ("### Decode: time over the plain step with as many keys", "decode",
             ("cope", "cope_small_gates", "alibi", "rope", "plain_2_threads")),
            ("### Decode with a full cache that evicts, over the plain step with as many keys",
             "eviction", ("window", "window+4", "tova", "tova_head", "h2o", "tova+cope"))):
        rows = []
        for policy in policies:
            for length in CACHE_LENGTHS:
                values = [cached(results, file, "over_plain", policy, heads, dim, length)
                          for heads, dim in CACHED]
                rows.append([f"{policy}, {length} keys"] +
                            ["–" if value is None else f"{value:.2f}" for value in values])
        lines += titled([title, ""], table(head, rows))
    return lines


def backward(results):
    lines = ["### Forward + backward: share of the multiply-add rate at 3.5 times the forward flops, "
             "or time over plain", ""]
    columns = [(dim, length) for dim in DIMS for length in LENGTHS]
    columns = [(dim, length) for dim, length in columns
               if results.median("backward", name_of("backward", "plain", length, dim), "fma_share")]
    get = lambda policy, what: [results.values("backward", name_of("backward", policy, length, dim),
                                               what) for dim, length in columns]
    rows = [["plain, share"] + [figure(x, 100, "{:.0f} %") for x in get("plain", "fma_share")]]
    policies = sorted({name.split(":", 1)[1].split("/heads")[0]
                       for name in results.runs.get("backward", {}) if name.startswith("backward/")})
    for policy in policies:
        rows.append([policy] + [figure(x) for x in get(policy, "over_plain")])
    for policy in ("plain", "cope"):
        rows.append([f"{policy}, two threads over one"] + [
            figure(results.values("backward", name_of("threads", policy, length, dim), "speed_up"))
            for dim, length in columns])
    lines = titled(lines, table([""] + [f"D {dim}, T {length}" for dim, length in columns], rows))
    rows = [[policy] + [figure(results.values("backward", name_of("memory", policy, length, 64),
                                              "kib"), 1, "{:.0f}") for length in LENGTHS]
            for policy in ("plain", "cope")]
    return lines + titled(["### Memory of a training step beyond operands and results, KiB (D 64)",
                           ""], table([""] + [f"T {length}" for length in LENGTHS], rows))


def main():
    folder = pathlib.Path(sys.argv[1])
    results = Results(folder)
    if not results.runs:
        sys.exit(f"table.py: no results in {folder}; bench/run makes them")
    lines = machine(results)
    for part in (prefill, policies, threads, unfused, memory, decode, backward, compile_time, peers,
                 primitives):
        lines += part(results)
    text = "\n".join(lines)
    if "--into" not in sys.argv:
        print(text)
        return
    readme = pathlib.Path(sys.argv[sys.argv.index("--into") + 1])
    before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    readme.write_text(f"{before}{BEGIN}\n{text}{END}{after}", encoding="utf-8")
    print(f"wrote {readme}")


if __name__ == "__main__":
    main()
