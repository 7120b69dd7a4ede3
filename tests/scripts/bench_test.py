"""The command line of mantissa_bench: a wrong word is one sentence and its exit code, never another device or an empty table."""
import subprocess
import sys

failures = []


def bench(arguments, code, words, out=""):
    done = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, timeout=60)
    good = done.returncode == code and words in done.stderr and out in done.stdout and done.stderr.count("\n") == (code > 0)
    if not good:
        failures.append(f"{' '.join(arguments)}: exit {done.returncode}, says '{done.stderr}'")


bench(["--help"], 0, "", "usage: mantissa_bench")
bench(["train", "-h"], 0, "", "usage: mantissa_bench")
bench(["step", "--model", "nanno"], 2, '--model: "nanno"; allowed: nano, minigpt')
bench(["matmul", "--device", "cuda"], 2, '--device: "cuda"; allowed: cpu; train and ops measure a GPU')
bench(["quantize", "--device", "gpu"], 2, '--device: "gpu"')
bench(["ops", "--device", "cuda:9"], 2, '--device: "cuda:9"; allowed: auto, cpu, cuda')
bench(["train", "--device", "gpu"], 2, '"gpu" is not a device; allowed: auto, cpu')
bench(["train", "--device", "cuda:99"], 4, "cuda:99")
bench(["train", "--config", "nanno"], 2, 'config: "nanno"; allowed: nano')
bench(["train", "--foo", "1"], 2, 'option: "--foo"; allowed: what --help lists')
bench(["matmul", "--seconds"], 2, 'option: "--seconds"; allowed: what --help lists, each with its value')
bench(["step", "--seconds", "abc"], 2, '--seconds: "abc"; allowed: a number 0')
bench(["step", "--seconds", "-1"], 2, '--seconds: "-1"; allowed: a number 0')
bench(["step", "--threads", "2x"], 2, '--threads: "2x"; allowed: a number 0')
bench(["train", "--clip", "no"], 2, '--clip: "no"; allowed: on, off')
bench(["matmul", "train"], 2, 'benchmark: "matmul train"; allowed: train alone')
bench(["nonsense"], 2, 'benchmark: "nonsense"; allowed: matmul, attention')

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
