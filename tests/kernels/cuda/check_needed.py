#!/usr/bin/env python3
"""Fails when a program lists a CUDA library among those it needs to start (DT_NEEDED), or lists none at all.

usage: check_needed.py PROGRAM...
One binary must start on machines without a GPU, driver or toolkit, so libcuda, cuBLASLt, cuDNN and NVML are opened at run time.
"""
import re
import subprocess
import sys

FORBIDDEN = re.compile(r"lib(cuda|cudart|cublas|cudnn|nvidia|nvrtc|nvJitLink)")


def needed(program: str) -> list[str]:
    dynamic = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


def main() -> int:
    failures = 0
    for program in sys.argv[1:]:
        libraries = needed(program)
        bad = [name for name in libraries if FORBIDDEN.match(name)]
        if bad or not libraries:
            print(f"{program}: needs {', '.join(bad) or 'no library, so nothing was read'}")
            failures += 1
    return 1 if failures or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
