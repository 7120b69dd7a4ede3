#!/usr/bin/env python3
"""Proofs by the built program, in processes of their own.

usage: proofs.py MANTISSA-RUN memory PRESET...    P14: peak of memory is the forecast, in four precisions
       proofs.py MANTISSA-RUN resume PRESET       P04, P13: killed, resumed on other thread counts, in every precision
       proofs.py MANTISSA-RUN kill COUNT          one run killed COUNT times at random moments

With MANTISSA_DEVICE=cuda on a GPU, else on the CPU. Memory is the process's resident memory on a CPU; on a GPU what the
board has in use beyond that in a run of tiny in the same precision, its plan apart: that is the context's. Exit code 1 and a sentence for each claim that does not hold.
"""
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
DEVICE = os.environ.get("MANTISSA_DEVICE", "cpu")
MIB = 1 << 20
SLACK_SECONDS = 1.0  # what a kill may lose
failures = []


def expect(true, sentence):
    if not true:
        failures.append(sentence)
        print("FAILED: " + sentence, flush=True)


def call(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)


def must(*arguments):
    result = call(*arguments)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: exit code {result.returncode}: {result.stderr.strip()}")
    return result.stdout


def settings(pairs):
    return [word for name, value in pairs.items() for word in ("--set", f"{name}={value}")]


# ---- memory --------------------------------------------------------------------------------------------------------


def peak_of(*arguments):
    """Standard output and the peak of resident memory (VmHWM) of a call, in bytes."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"{' '.join(map(str, arguments))}: exit code {child.returncode}")
        out.seek(0)
        return out.read(), usage.ru_maxrss * 1024


class Board:
    """Memory in use on the first GPU, by NVML; the largest reading while a call runs."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)):
            sys.exit("memory: NVML cannot be used")

    def used(self):
        numbers = (ctypes.c_ulonglong * 3)()  # total, free, used
        if self.nvml.nvmlDeviceGetMemoryInfo(self.handle, numbers):
            sys.exit("memory: NVML does not say how much is in use")
        return numbers[2]

    def peak_of(self, *arguments):
        with tempfile.TemporaryFile("w+") as out:
            before, peak = self.used(), 0
            child = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=out, stderr=subprocess.DEVNULL)
            while child.poll() is None:
                peak = max(peak, self.used())
                time.sleep(0.002)
            if child.returncode != 0:
                sys.exit(f"{' '.join(map(str, arguments))}: exit code {child.returncode}")
            out.seek(0)
            return out.read(), peak - before


def forecast_of(name, *arguments):
    return json.loads(must("plan", name, "--json", *arguments))["bytes"]


def prove_memory_of_gpu(folder, presets):
    board = Board()
    short = settings({"train.steps": 4, "schedule.warmup": 0, "eval.every": 4, "eval.batches": 1, "checkpoint.every": 0,
                      "probes.every": 1, "probes.histograms": 1})
    for precision in ("fp32", "bf16", "fp8-delayed", "fp8-current"):
        context = None
        for name in [f"{preset}-{precision}" for preset in ["tiny", *presets]]:
            forecast = forecast_of(name)
            peak = board.peak_of("run", name, "--store", folder + "/m.mantissa", "--json", "--quiet", *short)[1]
            if context is None:
                context = peak - forecast
                print(f"{precision}: the context and its libraries take {context / MIB:.1f} MiB", flush=True)
                continue
            bound = max(24 * MIB, forecast / 20)
            print(f"{name}: forecast {forecast / MIB:.1f} MiB, in use {(peak - context) / MIB:.1f} MiB", flush=True)
            expect(abs(peak - context - forecast) <= bound,
                   f"{name}: memory in use and forecast differ by more than {bound / MIB:.0f} MiB")


def prove_memory(folder, presets):
    if DEVICE != "cpu":
        return prove_memory_of_gpu(folder, presets)
    _, before = peak_of("presets")
    for preset in presets:
        for precision in ("fp32", "bf16", "fp8-delayed", "fp8-current"):
            name = f"{preset}-{precision}"
            short = settings({"train.steps": 1, "schedule.warmup": 0, "eval.every": 1, "eval.batches": 1,
                              "checkpoint.every": 0, "probes.every": 1, "probes.histograms": 1})
            forecast = forecast_of(name)
            started = time.monotonic()
            out, peak = peak_of("run", name, "--store", folder + "/m.mantissa", "--json", "--quiet", *short)
            own = json.loads(out.splitlines()[-1])["peak_bytes"]
            bound = max(24 * MIB, forecast / 20)
            print(f"{name}: forecast {forecast / MIB:.1f} MiB, peak {(peak - before) / MIB:.1f} MiB, as the run says "
                  f"{own / MIB:.1f} MiB ({time.monotonic() - started:.0f} s)", flush=True)
            expect(abs(peak - before - forecast) <= bound, f"{name}: peak and forecast differ by more than {bound / MIB:.0f} MiB")


# ---- kill and resume -----------------------------------------------------------------------------------------------


class Background:
    """A run whose lines are read as they come."""

    def __init__(self, *arguments):
        self.child = subprocess.Popen([PROGRAM, *map(str, arguments), "--json", "--quiet"], stdout=subprocess.PIPE, text=True)
        self.arrivals = {}  # step -> time

    def read_until(self, wanted, seconds=None):
        """Until wanted(event), the end, or for that long. Returns whether the run still lives."""
        end = None if seconds is None else time.monotonic() + seconds
        for line in self.child.stdout:
            event = json.loads(line)
            if event["event"] == "step":
                self.arrivals[event["step"]] = time.monotonic()
            if wanted(event) or (end is not None and time.monotonic() >= end):
                return True
        return False

    def kill(self):
        """kill -9. Returns the last step whose line came at least SLACK_SECONDS earlier, 0 when none did."""
        moment = time.monotonic()
        self.child.send_signal(signal.SIGKILL)
        for line in self.child.stdout:
            pass
        expect(self.child.wait() == -signal.SIGKILL, "the run ended before it was killed")
        return max((step for step, at in self.arrivals.items() if at <= moment - SLACK_SECONDS), default=0)


def compare(whole, resumed, name):
    """Every series of two (store, run), which have to agree in every bit. Returns how many values that were."""
    values = 0
    for metric in ("loss", "grad_norm", "lr", "val_loss", "numerics/*"):
        one, other = (call("export", run, "--store", store, "--metrics", metric).stdout for store, run in (whole, resumed))
        expect(one or metric == "numerics/*", f"{name}: there is no {metric}")
        values += max(0, one.count("\n") - 1)
        if one != other:
            lines = [(a, b) for a, b in zip(one.splitlines(), other.splitlines()) if a != b]
            expect(False, f"{name}: {metric} differs: {lines[:1] or 'in length'}")
    return values


def check_store(store, name, least):
    """After a kill: the store is whole, the run reads interrupted, and has step `least`."""
    expect(call("store", "check", "--store", store).returncode == 0, f"{name}: the store does not pass its check")
    row = json.loads(must("list", "--store", store, "--json"))[0]
    expect(row["status"] == "interrupted", f"{name}: after a kill the run reads {row['status']}")
    expect(row["step"] >= least, f"{name}: the store ends at step {row['step']}, step {least} was done {SLACK_SECONDS} s earlier")
    return row["step"]


def prove_resume(folder, preset):
    """In the middle of accumulation and of the schedule's decay: the kill falls at random into a step."""
    steps = 40
    spec = settings({"train.accumulation": 3, "train.batch": 2, "train.steps": steps, "schedule.warmup": 7,
                     "checkpoint.every": 9, "checkpoint.keep": 0, "eval.every": 10, "eval.batches": 1,
                     "probes.every": 5, "data.path": "text:generated"})
    cases = [(f"{preset}-{p}", {}) for p in ("fp32", "bf16", "fp8-delayed", "fp8-current")]
    cases.append((f"{preset}-fp32", {"precision.mode": "fp16"}))
    for number, (name, more) in enumerate(cases):
        title = f"{name} {more.get('precision.mode', '')}".strip()
        stores = [f"{folder}/{number}-{part}.mantissa" for part in ("whole", "killed")]
        arguments = ["run", name, "--name", "one", *spec, *settings(more)]
        must(*arguments, "--store", stores[0], "--threads", 2, "--quiet")
        run = Background(*arguments, "--store", stores[1], "--threads", 3)
        alive = run.read_until(lambda event: event["event"] == "step" and event["step"] >= 20)
        expect(alive, f"{title}: the run ended early")
        time.sleep(random.uniform(0, 0.02))
        at = check_store(stores[1], title, run.kill())
        for threads, until in ((1, 30), (16, steps)):
            again = Background("resume", "one", "--store", stores[1], "--threads", threads)
            alive = again.read_until(lambda event: event["event"] == "step" and event["step"] >= until)
            if until < steps:
                expect(alive, f"{title}: the resumed run ended early")
                check_store(stores[1], title, again.kill())
            else:
                again.read_until(lambda event: False)
                expect(again.child.wait() == 0, f"{title}: the resumed run failed")
        values = compare((stores[0], "one"), (stores[1], "one"), title)
        print(f"{title}: killed at step {at} and near step 30, resumed on 1 and 16 threads: {values} values equal", flush=True)


def prove_kills(folder, count):
    steps = 400 * count
    spec = settings({"train.accumulation": 2, "train.steps": steps, "checkpoint.every": 25, "checkpoint.keep": 2,
                     "eval.every": 50, "eval.batches": 1, "data.path": "text:generated"})
    store = folder + "/k.mantissa"
    for kill in range(count):
        arguments = ["run", "tiny", "--name", "one", *spec] if kill == 0 else ["resume", "one"]
        run = Background(*arguments, "--store", store, "--threads", random.choice((1, 2, 3)))
        alive = run.read_until(lambda event: event["event"] == "checkpoint") if kill == 0 else True
        if alive and random.random() < 0.2:
            time.sleep(random.uniform(0, 0.5))  # perhaps while it starts
        elif alive:
            more = random.randint(1, 80)
            alive = run.read_until(lambda event: len(run.arrivals) >= more)
        expect(alive, "the run ended before it was killed")
        if not alive:
            break
        time.sleep(random.uniform(0, 0.02))
        print(f"kill {kill + 1}: the store ends at step {check_store(store, f'kill {kill + 1}', run.kill())}", flush=True)
    must("resume", "one", "--store", store, "--quiet")
    whole = folder + "/w.mantissa"
    must("run", "tiny", "--name", "one", *spec, "--store", whole, "--quiet")
    print(f"{steps} steps, killed {count} times: {compare((whole, 'one'), (store, 'one'), 'killed run')} values equal")


def main():
    seed = int(os.environ.get("MANTISSA_PROOF_SEED", time.time_ns() % 1_000_000))
    print(f"MANTISSA_PROOF_SEED={seed}")
    random.seed(seed)
    os.environ["MANTISSA_DEVICE"] = DEVICE
    what, arguments = sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        if what == "memory":
            prove_memory(folder, arguments)
        elif what == "resume":
            prove_resume(folder, arguments[0])
        elif what == "kill":
            prove_kills(folder, int(arguments[0]))
        else:
            sys.exit(f"{what}: allowed: memory, resume, kill")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
