#!/bin/sh
# Draws the pictures of the README again, each with the command that stands beside it.
# Usage: scripts/readme-pictures.sh [path of the program mantissa]
set -eu
cd "$(dirname "$0")/.."
program=${1:-build/release/bin/mantissa}
[ -x "$program" ] || { echo "readme-pictures: $program is not there; ./start builds it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n 's/^| `docs\/[^`]*\.png` | [^|]* | `mantissa \([^`]*\)` |.*/\1/p' README.md | while read -r arguments; do
    # The store is opened for writing, so the command works on a copy of it.
    store=$(printf '%s\n' "$arguments" | sed 's/.*--store \([^ ]*\).*/\1/')
    rm -rf "$work"/copy.mantissa*
    cp "$store" "$work/copy.mantissa"
    # shellcheck disable=SC2046,SC2086
    QT_QPA_PLATFORM=offscreen XDG_CONFIG_HOME="$work" "$program" \
        $(printf '%s\n' "$arguments" | sed "s|--store [^ ]*|--store $work/copy.mantissa|") </dev/null
    printf '%s\n' "$arguments" | sed 's/.*--screenshot //'
done
