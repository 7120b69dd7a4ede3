#!/usr/bin/env python3
"""Training steps of Mantissa and of PyTorch on the same processors, in interleaved pairs.

usage: beside-pytorch.py --peer SCRIPT [--python PYTHON] [--bench PROGRAM] [--config nano|minigpt] [--isa best|avx2]
                         [--precision fp32,bf16,fp8] [--pairs N] [--seconds S] [--busy] [--record FILE]

SCRIPT is a program that trains the same model in PyTorch: called with `--seconds S CONFIG:MODE`, MODE one of eager,
compile, eager_bf16, compile_bf16, it prints a line "CONFIG MODE MEDIAN ms ...". A pair is one run of each program in each
precision, one after the other. For each precision the faster of PyTorch's eager and compiled form counts, chosen by the
first pair; a form that does not run is left out. --isa avx2 narrows both programs to AVX2. --busy puts one endless loop per processor beside them (without
PyTorch: it shows our own slowdown). --record adds the pairs to FILE and prints all that it holds, so that pairs can be
measured one by one.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

OURS = {
    "fp32": ["--precision", "fp32"],
    "bf16": ["--precision", "bf16"],
    "fp8-delayed": ["--precision", "fp8-delayed"],
    "fp8-delayed, no counters": ["--precision", "fp8-delayed", "--statistics", "off"],
}
MODES = {"fp32": ("eager", "compile"), "bf16": ("eager_bf16", "compile_bf16")}
NARROW_PEER = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
TOKENS = {"nano": 2048, "minigpt": 1024}


def median_ms(command, environment, pattern):
    """Runs a program and takes its median milliseconds a step from the line that matches; None when it fails."""
    result = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    found = re.search(pattern, result.stdout)
    if result.returncode != 0 or not found:
        print(f"{' '.join(command)}: exit code {result.returncode}: {(result.stderr or result.stdout)[-200:].strip()}", file=sys.stderr)
        return None
    return float(found.group(1))


def our_step(args, precision):
    name = "minigpt4" if args.config == "minigpt" else args.config
    command = [args.bench, "train", "--device", "cpu", "--config", name, "--seconds", str(args.seconds), *OURS[precision]]
    return median_ms(command, {"MANTISSA_ISA": "avx2"} if args.isa == "avx2" else {}, r"([0-9.]+) ms/step")


def peer_step(args, mode):
    command = [args.python, args.peer, "--threads", str(os.cpu_count()), "--seconds", str(args.seconds), f"{args.config}:{mode}"]
    return median_ms(command, NARROW_PEER if args.isa == "avx2" else {}, rf"{args.config} +{mode} +([0-9.]+) ms")


def measure_pair(args, known):
    """One pair: {column: ms}. known: the pairs before it, which decide which form of PyTorch is measured."""
    pair = {f"ours {p}": our_step(args, p) for p in OURS if p.split("-")[0] in args.precision}
    if args.busy:
        return pair
    for precision, modes in MODES.items():
        if precision not in args.precision:
            continue
        earlier = [pair for pair in known if any(f"peer {mode}" in pair for mode in modes)]
        if earlier:
            modes = [min((m for m in modes if f"peer {m}" in earlier[0]), key=lambda m: earlier[0][f"peer {m}"])]
        for mode in modes:
            pair[f"peer {mode}"] = peer_step(args, mode)
    return {column: milliseconds for column, milliseconds in pair.items() if milliseconds is not None}


def summary(pairs, column):
    values = [pair[column] for pair in pairs if column in pair]
    return statistics.median(values), min(values), max(values), len(values)


def ratio(pairs, over, under):
    """Median and range of over / under, pair by pair."""
    values = [pair[over] / pair[under] for pair in pairs if over in pair and under in pair]
    if not values:
        return "not measured"
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}, {len(values)} pairs)"


def report(args, pairs):
    print(f"{args.config}, {args.isa}{', busy' if args.busy else ''}: {len(pairs)} pairs, ms a step")
    for column in dict.fromkeys(column for pair in pairs for column in pair):
        middle, low, high, count = summary(pairs, column)
        print(f"  {column:32} {middle:9.2f} ({low:.2f} to {high:.2f}, n {count}) {TOKENS[args.config] / middle * 1e3:9.0f} tokens/s")
    for precision, modes in MODES.items():
        measured = [f"peer {mode}" for mode in modes if any(f"peer {mode}" in pair for pair in pairs)]
        if measured and not args.busy:
            # The form that went on after the first pair.
            peer = max(measured, key=lambda column: (summary(pairs, column)[3], -summary(pairs, column)[0]))
            print(f"  PyTorch ({peer[5:]}) / ours, {precision}: {ratio(pairs, peer, f'ours {precision}')}")
    print(f"  FP8 / BF16: {ratio(pairs, 'ours fp8-delayed', 'ours bf16')}")
    print(f"  FP8 / FP32: {ratio(pairs, 'ours fp8-delayed', 'ours fp32')}")
    print(f"  FP8 with / without counters: {ratio(pairs, 'ours fp8-delayed', 'ours fp8-delayed, no counters')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="PyTorch program; not needed with --busy or --pairs 0")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default="build/release/bin/mantissa_bench")
    parser.add_argument("--config", choices=TOKENS, default="nano")
    parser.add_argument("--isa", choices=("best", "avx2"), default="best")
    parser.add_argument("--precision", type=lambda text: text.split(","), default=["fp32", "bf16", "fp8"])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--record")
    args = parser.parse_args()
    if args.pairs > 0 and not args.busy and not args.peer:
        sys.exit("error: --peer: a program that trains the model in PyTorch is needed")

    key = f"{args.config} {args.isa}{' busy' if args.busy else ''}"
    record = {}
    if args.record and os.path.exists(args.record):
        with open(args.record) as file:
            record = json.load(file)
    pairs = record.setdefault(key, [])
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() if args.busy else 0)]
    try:
        for _ in range(args.pairs):
            pairs.append(measure_pair(args, pairs))
    finally:
        for loop in loops:
            loop.kill()
    if args.record:
        with open(args.record, "w") as file:
            json.dump(record, file, indent=1)
    if not pairs:
        sys.exit(f"error: {args.record}: holds no pairs of {key}")
    report(args, pairs)


if __name__ == "__main__":
    main()
