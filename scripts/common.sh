# shellcheck shell=bash
# Shared by ./start and ./check: source it after `cd` to the repository root.
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Runs a command with its output in a log; on failure shows the end of the log and one sentence.
quietly() {
  local what=$1 log=$2; shift 2
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    grep -E 'error|Error|FAILED' "$log" | head -n 20 >&2 || true
    tail -n 15 "$log" >&2
    fail "$what failed; the whole output is in $log."
  fi
}

# Writes the King James text of Debian's bible-kjv where `text:kjv` looks for it, once.
write_kjv() {
  local folder="${XDG_DATA_HOME:-$HOME/.local/share}/mantissa/text"
  [ -s "$folder/kjv.txt" ] && return 0
  [ -x /usr/bin/bible ] || fail "text: the program /usr/bin/bible (package bible-kjv) is missing."
  mkdir -p "$folder" || fail "text: $folder cannot be made."
  /usr/bin/bible gen1:1-rev22:21 >"$folder/kjv.txt.part" || fail "text: 'bible gen1:1-rev22:21' failed."
  mv "$folder/kjv.txt.part" "$folder/kjv.txt"
  echo "Wrote $folder/kjv.txt ($(wc -c <"$folder/kjv.txt") bytes)."
}

tell_about_cuda() {
  if command -v nvidia-smi >/dev/null 2>&1 && ! command -v nvcc >/dev/null 2>&1 && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "An NVIDIA driver is here, but no CUDA toolkit: this build trains on the CPU. With CUDA 12.9 or newer from NVIDIA's"
    echo "packages (nvcc on PATH or /usr/local/cuda), run this command again and the CUDA backend is built too."
  fi
}
