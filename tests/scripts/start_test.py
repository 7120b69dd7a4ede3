"""./start without a display: what it hands on to mantissa-run. In a copy whose build is done and whose program prints its arguments."""
import os
import shutil
import subprocess
import sys
import tempfile

source = sys.argv[1]
failures = []


def script(path, text):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)


with tempfile.TemporaryDirectory() as scratch:
    root = os.path.join(scratch, "a folder")
    for folder in ("scripts", "build/release/bin", "data/mantissa/text", "elsewhere"):
        os.makedirs(os.path.join(root, folder))
    shutil.copy(os.path.join(source, "start"), root)
    shutil.copy(os.path.join(source, "scripts/common.sh"), os.path.join(root, "scripts"))
    script(os.path.join(root, "scripts/install-dependencies.sh"), "#!/bin/sh\n")
    script(os.path.join(root, "build/release/bin/mantissa-run"), "#!/bin/sh\nfor word; do printf '<%s>' \"$word\"; done\n")
    with open(os.path.join(root, "build/release/build.ninja"), "w") as file:
        file.write("build mantissa: phony\nbuild mantissa-run: phony\n")
    with open(os.path.join(root, "data/mantissa/text/kjv.txt"), "w") as file:
        file.write("text\n")
    os.symlink(os.path.join(root, "start"), os.path.join(root, "elsewhere/link"))
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment["XDG_DATA_HOME"] = os.path.join(root, "data")

    def start(arguments, code, words, program="start", folder="."):
        done = subprocess.run([os.path.join(root, program), *arguments], cwd=os.path.join(root, folder), env=environment,
                              capture_output=True, text=True, timeout=60)
        if done.returncode != code or words not in done.stdout + done.stderr:
            failures.append(f"{program} {' '.join(arguments)}: exit {done.returncode}, '{done.stdout}{done.stderr}'")

    start([], 0, "<run><nano>")
    start(["--quiet", "--set", "train.steps=50"], 0, "<run><nano><--quiet><--set><train.steps=50>")
    start(["--preset", "tiny", "--start", "--page", "live", "--select", "all", "--quiet"], 0, "<run><tiny><--quiet>")
    start(["--preset=tiny", "--theme=dark", "--select=all", "--size=1024x640"], 0, "instead.\n<run><tiny>")
    start(["--preset"], 1, "error: start: --preset: a name is missing; allowed: what mantissa-run presets lists")
    start(["--preset", "tiny"], 0, "<run><tiny>", program="elsewhere/link", folder="elsewhere")

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
