#!/usr/bin/env python3
"""Fails when an object compiled for a newer instruction set defines code that the linker could take for the baseline's.

Every function symbol that such an object shares with others (global, weak, unique) must lie in its own namespace, say
mantissa::kernels::avx2. Constants (read-only data) may be shared: they hold no instructions.

usage: isa_symbols.py ISA=OBJECT[;OBJECT...] ...
"""
import re
import subprocess
import sys


def offenders(isa: str, listing: str) -> list[str]:
    """Symbols of `nm -C` output that are shared code outside the namespace of `isa`."""
    found = []
    for line in listing.splitlines():
        match = re.match(r"^[0-9a-f]+ ([TtWwiu]) (.+)$", line)
        if not match or match.group(1) == "t":
            continue
        kind, name = match.groups()
        if f"mantissa::kernels::{isa}::" in name:
            continue
        if kind == "u" and "(" not in name:  # a constant shared by all objects
            continue
        found.append(f"{kind} {name}")
    return found


def selftest() -> None:
    planted = {
        "0000000000000000 W std::vector<float>::push_back(float const&)": True,
        "0000000000000010 T mantissa::kernels::helper(int)": True,
        "0000000000000000 u mantissa::kernels::kE4m3": False,
        "0000000000000000 T mantissa::kernels::avx2::forward(int)": False,
        "0000000000000000 T mantissa::kernels::avx512::forward(int)": True,
        "0000000000000000 t mantissa::kernels::(anonymous namespace)::f()": False,
        "                 U memcpy": False,
    }
    for line, wrong in planted.items():
        if bool(offenders("avx2", line)) != wrong:
            sys.exit(f"self-test: {line!r} was judged wrongly")


def main() -> int:
    selftest()
    problems = objects = 0
    for argument in sys.argv[1:]:
        isa, files = argument.split("=", 1)
        for path in files.split(";"):
            listing = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
            objects += 1
            for symbol in offenders(isa, listing):
                print(f"{path}: {symbol}")
                problems += 1
    print(f"{objects} objects checked, {problems} problems")
    return 1 if problems or objects == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
