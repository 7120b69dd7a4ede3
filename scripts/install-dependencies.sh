#!/usr/bin/env bash
# Installs with apt what is missing to build Mantissa, and fetches headers of cudnn-frontend where there is CUDA; says nothing when
# nothing is missing. Debian 12, Ubuntu 24.04 and newer.
# usage: install-dependencies.sh [--tests]
set -euo pipefail

fail() { printf 'error: install: %s\n' "$*" >&2; exit 1; }

# "a|b": the first name that this release knows. No -dev package of CUDA: Mantissa never installs CUDA.
build_packages=(g++ cmake ninja-build git ca-certificates ccache python3 pkg-config
  libsqlite3-dev nlohmann-json3-dev libcli11-dev libfmt-dev zlib1g-dev
  qt6-base-dev "qt6-charts-dev|libqt6charts6-dev" "qt6-svg-dev|libqt6svg6-dev" "libqt6opengl6-dev|qt6-base-dev" libgl-dev libopengl-dev
  qt6-qpa-plugins fonts-roboto-unhinted fonts-dejavu-core
  bible-kjv bible-kjv-text)
test_packages=(libgtest-dev libgmock-dev xvfb binutils)

command -v apt-get >/dev/null || fail "apt-get was not found; Mantissa's script knows Debian and Ubuntu. README.md lists the packages."

wanted=("${build_packages[@]}")
[ "${1:-}" = "--tests" ] && wanted+=("${test_packages[@]}")

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

install_packages() {
  missing_groups=()
  for group in "${wanted[@]}"; do
    found=
    IFS='|' read -ra names <<<"$group"
    for name in "${names[@]}"; do installed "$name" && found=1 && break; done
    [ -n "$found" ] || missing_groups+=("$group")
  done
  [ ${#missing_groups[@]} -eq 0 ] && return 0

  root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "packages are missing (${missing_groups[*]}) and neither root nor sudo is at hand."
    root=(sudo)
    echo "Installing packages needs administrator rights; sudo may ask for your password."
  fi

  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  echo "Updating the package lists ..."
  "${root[@]}" apt-get update >"$log" 2>&1 || { tail -n 3 "$log" >&2; fail "apt-get update failed; the lines above are its own words."; }

  packages=()
  for group in "${missing_groups[@]}"; do
    IFS='|' read -ra names <<<"$group"
    chosen=
    for name in "${names[@]}"; do
      # Not a pipe into grep -q: with pipefail apt-cache would die of the closed pipe and the package count as unknown.
      policy=$(apt-cache policy "$name" 2>/dev/null)
      if grep -q 'Candidate: [^(]' <<<"$policy"; then chosen=$name; break; fi
    done
    [ -n "$chosen" ] || fail "this release has no package ${group//|/ or } (on Ubuntu the 'universe' component must be enabled)."
    packages+=("$chosen")
  done

  echo "Installing ${#packages[@]} packages: ${packages[*]}"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}" >"$log" 2>&1 \
    || { tail -n 5 "$log" >&2; fail "apt-get install failed; the lines above are its own words."; }
}

install_packages
# Headers alone, and only where a CUDA backend can be built: cuDNN's attention is compiled against them.
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  cmake -P "$(dirname "$(readlink -f "$0")")/../cmake/FetchCudnnFrontend.cmake"
fi
