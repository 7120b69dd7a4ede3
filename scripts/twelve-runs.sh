#!/usr/bin/env bash
# The comparison a user comes for: nano in BF16, FP8 delayed, FP8 current and FP8 unscaled, three seeds each, same tokens.
# Prints the table of the README with spread. usage: twelve-runs.sh [MANTISSA-RUN [STORE]]
set -euo pipefail
program=${1:-build/release/bin/mantissa-run}
[ -x "$program" ] || { echo "error: twelve-runs: $program: is not there; build it with ./start or ./check" >&2; exit 2; }
own=
store=${2:-}
if [ -z "$store" ]; then own=$(mktemp -d); store=$own/twelve.mantissa; trap 'rm -rf "$own"' EXIT; fi
for preset in nano-bf16 nano-fp8-delayed nano-fp8-current nano-fp8-unscaled; do
  for seed in 1 2 3; do
    # The unscaled run may diverge (exit 1): that is part of the result.
    "$program" run "$preset" --store "$store" --quiet --name "$preset-s$seed" --set seed=$seed || [ $? -eq 1 ]
  done
done
"$program" list --store "$store" --json | python3 -c '
import json, math, statistics, sys
runs = {}
for row in json.load(sys.stdin):
    preset, _, seed = row["name"].rpartition("-s")
    value = row["val_loss"]
    runs.setdefault(preset, {})[seed] = float(value) if value is not None else math.nan
base = runs["nano-bf16"]
print("%-20s %9s %9s %9s   %8s   %s" % ("preset", "seed 1", "seed 2", "seed 3", "mean", "difference to BF16, same seed: mean +- sd"))
for preset in ("nano-bf16", "nano-fp8-delayed", "nano-fp8-current", "nano-fp8-unscaled"):
    row = runs[preset]
    difference = [row[s] - base[s] for s in sorted(row)]
    print("%-20s %9.4f %9.4f %9.4f   %8.4f   %+.4f +- %.4f" % (preset, row["1"], row["2"], row["3"],
          statistics.mean(row.values()), statistics.mean(difference), statistics.stdev(difference)))
'
