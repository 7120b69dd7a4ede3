"""scripts/beside-gpu-peers.py on lines that mantissa_bench and a peer printed on an H200: figures, ratios, what it says of a failure."""
import os
import stat
import subprocess
import sys
import tempfile

script = os.path.join(sys.argv[1], "scripts", "beside-gpu-peers.py")
OURS = """commit 361c1d2
X4    bf16              164.807 ms/step (160.516 to 188.428, n 40),      49707 tokens/s,  561.8 TFLOP/s, plan  35.00 GiB
      matmul 131.092, attention 12.018, elementwise 7.037, optimizer 15.487 ms
X4    fp8-delayed       114.798 ms/step (111.330 to 129.868, n 40),      71360 tokens/s,  806.6 TFLOP/s, plan  31.19 GiB
"""
PEER = """{"part": "torch", "config": "X4", "variant": "compile", "n": 20, "ms_median": 178.405, "ms_min": 172.215, "ms_max": 186.926}
{"part": "te", "config": "X4", "variant": "fp8d_m", "n": 20, "ms_median": 119.713, "ms_min": 116.065, "ms_max": 135.662}
"""
failures = []


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write("#!/usr/bin/env python3\nimport sys\n" + text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def beside(*arguments):
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def expect(what, happened):
    if not happened:
        failures.append(what)


with tempfile.TemporaryDirectory() as folder:
    bench = program(folder, "bench", f"assert sys.argv[1:] == 'train --device cuda --config X4 --precision bf16,fp8-delayed --steps 40'.split()\nprint('''{OURS}''')\n")
    peer = program(folder, "peer", f"assert sys.argv[3:] == ['X4:compile', 'X4:fp8d_m'], sys.argv\nopen(sys.argv[2], 'a').write('''{PEER}''')\n")
    broken = program(folder, "broken", "sys.exit('no GPU here')\n")

    code, out, error = beside("--peer", peer, "--bench", bench, "--config", "X4", "--turns", "2")
    expect(f"exit {code} {error}", code == 0)
    expect(f"BF16: {out}", "ours 164.81 (160.52 to 188.43, n 80), peer 178.41 (172.22 to 186.93, n 40) ms/step, peer / ours 1.083 (1.083 to 1.083)" in out)
    expect(f"FP8: {out}", "ours 114.80 (111.33 to 129.87, n 80), peer 119.71 (116.06 to 135.66, n 40) ms/step, peer / ours 1.043" in out)

    code, out, error = beside("--peer", broken, "--bench", bench, "--config", "X4")
    expect(f"a peer that fails: exit {code}, '{error}'", code == 1 and "no GPU here" in error and error.count("\n") == 1)
    code, out, error = beside("--peer", peer, "--bench", os.path.join(folder, "absent"), "--config", "X4")
    expect(f"a bench that is absent: exit {code}, '{error}'", code == 1 and "absent: No such file" in error)
    code, out, error = beside("--peer", peer, "--bench", bench, "--config", "X5")
    expect(f"an unknown configuration: exit {code}, '{error}'", code == 1 and "allowed: S32, M32, L16, X4" in error)

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
