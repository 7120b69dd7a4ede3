#!/usr/bin/env python3
"""Training steps of Mantissa, PyTorch and Transformer Engine on one GPU, one after the other in one command.

usage: beside-gpu-peers.py --peer SCRIPT [--python PYTHON] [--bench PROGRAM] [--config S32,M32,L16,X4] [--turns N]
                           [--bf16 VARIANT] [--fp8 VARIANT] [--steps N]

SCRIPT trains the same model with PyTorch and Transformer Engine: called with `--out FILE CONFIG:VARIANT ...` it adds a line of
JSON for each to FILE, with config, variant, n, ms_median, ms_min and ms_max. In a turn each program runs each configuration once;
a row is the median of the turns, the lowest and highest step of them all and the ratio of the two programs turn by turn. The
variants are the fastest known of each configuration unless --bf16 or --fp8 name another.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

VARIANTS = {
    "S32": {"bf16": "graph", "fp8-delayed": "fp8d_m_w_g"},
    "M32": {"bf16": "compile", "fp8-delayed": "fp8d_m_g"},
    "L16": {"bf16": "region", "fp8-delayed": "fp8d_m_g"},
    "X4": {"bf16": "compile", "fp8-delayed": "fp8d_m"},
}
STEPS = {"S32": 1000, "M32": 110, "L16": 20, "X4": 40}
OUR_LINE = re.compile(r"^(\w+) +(\S+) +([0-9.]+) ms/step \(([0-9.]+) to ([0-9.]+), n (\d+)\)", re.MULTILINE)


def run(command):
    """Standard output of a program; ends this one with a sentence where it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"error: {command[0]}: {error.strerror}")
    if result.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: exit code {result.returncode}: {(result.stderr or result.stdout).strip()[-300:]}")
    return result.stdout


def ours(args, config):
    """{precision: (median, fastest, slowest, steps)} of one run, milliseconds."""
    out = run([args.bench, "train", "--device", "cuda", "--config", config, "--precision", "bf16,fp8-delayed",
               "--steps", str(args.steps or STEPS[config])])
    return {found[2]: (float(found[3]), float(found[4]), float(found[5]), int(found[6])) for found in OUR_LINE.finditer(out)}


def peers(args, config):
    """The same of the peer."""
    wanted = {"bf16": args.bf16 or VARIANTS[config]["bf16"], "fp8-delayed": args.fp8 or VARIANTS[config]["fp8-delayed"]}
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "peers.jsonl")
        run([args.python, args.peer, "--out", file, *(f"{config}:{variant}" for variant in wanted.values())])
        with open(file) as lines:
            rows = {row["variant"]: row for row in map(json.loads, lines) if "ms_median" in row}
    return {precision: tuple(rows[variant][key] for key in ("ms_median", "ms_min", "ms_max", "n"))
            for precision, variant in wanted.items() if variant in rows}


def summary(turns):
    """Of [(median, fastest, slowest, steps)]: the same over all turns, in words."""
    if not turns:
        return "not measured"
    middle = statistics.median(turn[0] for turn in turns)
    return f"{middle:.2f} ({min(t[1] for t in turns):.2f} to {max(t[2] for t in turns):.2f}, n {sum(t[3] for t in turns)})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bench", default="build/release/bin/mantissa_bench")
    parser.add_argument("--config", default="S32,M32,L16,X4")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="ours; 0: at least 4 s of each configuration")
    parser.add_argument("--bf16")
    parser.add_argument("--fp8")
    args = parser.parse_args()
    configs = args.config.split(",")
    for config in configs:
        if config not in VARIANTS:
            sys.exit(f"error: --config: unknown '{config}'; allowed: {', '.join(VARIANTS)}")
    if args.turns < 1:
        sys.exit(f"error: --turns: {args.turns}; allowed: 1 and more")

    for config in configs:
        pairs = [(ours(args, config), peers(args, config)) for _ in range(args.turns)]
        for precision in ("bf16", "fp8-delayed"):
            both = [(a[precision], b[precision]) for a, b in pairs if precision in a and precision in b]
            ratios = sorted(b[0] / a[0] for a, b in both)
            ratio = f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})" if ratios else "not measured"
            print(f"{config:4} {precision:12} ours {summary([a[precision] for a, _ in pairs if precision in a])}, "
                  f"peer {summary([b[precision] for _, b in pairs if precision in b])} ms/step, peer / ours {ratio}", flush=True)


if __name__ == "__main__":
    main()
