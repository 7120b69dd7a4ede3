"""cmake/FetchCudnnFrontend.cmake where nothing can be fetched, or something else than expected: one sentence, exit 0, nothing left behind."""
import os
import subprocess
import sys
import tempfile

source, cmake = sys.argv[1], sys.argv[2]
script = os.path.join(source, "cmake", "FetchCudnnFrontend.cmake")
failures = []


def fetch(url, folder):
    done = subprocess.run([cmake, f"-DMANTISSA_FETCH_URL={url}", f"-DMANTISSA_FETCH_FOLDER={folder}", "-P", script],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def expect(what, happened):
    if not happened:
        failures.append(what)


with tempfile.TemporaryDirectory() as scratch:
    folder = os.path.join(scratch, "headers")
    for name, url, words in (("absent", f"file://{scratch}/absent.whl", "own kernels"),
                             ("another file", f"file://{script}", "expected was")):
        code, text = fetch(url, folder)
        expect(f"{name}: exit {code}", code == 0)
        expect(f"{name}: says '{text}'", words in text and text.count("was not fetched") == 1)
        expect(f"{name}: leaves {os.listdir(scratch)}", os.listdir(scratch) == [])
    file = os.path.join(scratch, "file")
    open(file, "w").close()
    code, text = fetch(f"file://{script}", os.path.join(file, "headers"))
    expect(f"a folder that cannot be made: exit {code}", code == 0)
    expect(f"a folder that cannot be made: says '{text}'", "cannot be written): attention" in text and "Error" not in text)
    os.makedirs(os.path.join(folder, "include"))
    open(os.path.join(folder, "include", "cudnn_frontend.h"), "w").close()
    code, text = fetch(f"file://{scratch}/absent.whl", folder)
    expect(f"already there: exit {code}, says '{text}'", code == 0 and text == "")

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
