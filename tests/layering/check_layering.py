#!/usr/bin/env python3
"""Fails when an include points upward, Qt is used outside gui/, CUDA headers outside kernels/, or gui/ includes kernels/.

Also when an argument of the command line has a name that CLI11 2.4 and later (Ubuntu 24.04) refuse by ending the program.

usage: check_layering.py SOURCE_DIR
"""
import pathlib
import re
import sys

LAYERS = ["kernels", "engine", "experiments", "gui"]
# gui may use value types of engine and everything of experiments, never kernels.
ALLOWED = {
    "kernels": {"kernels"},
    "engine": {"kernels", "engine"},
    "experiments": {"kernels", "engine", "experiments", "resources"},
    "gui": {"engine", "experiments", "gui", "resources"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA = re.compile(r"^(cuda|cublas|cudnn|nvml|cooperative_groups|mma\.h)")
QT = re.compile(r"^Q[A-Z]|^Qt[A-Z]")
BAD_ARGUMENT = re.compile(r'add_(?:option|flag)\(\s*"([^"]*[=:{ ][^"]*)"')


def check(root: pathlib.Path) -> tuple[list[str], int]:
    problems, files = [], 0
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
                continue
            files += 1
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if name := BAD_ARGUMENT.search(line):
                    problems.append(f'{path.relative_to(root)}:{number}: CLI11 allows no "=", ":", "{{" or space in an argument\'s name ({name[1]})')
                if not match:
                    continue
                kind, name = match.groups()
                where = f"{path.relative_to(root)}:{number}"
                first = name.split("/")[0]
                if kind == '"' and "/" not in name:
                    problems.append(f"{where}: include \"{name}\" does not start at the repository root")
                if kind == '"' and first in LAYERS and first not in ALLOWED[layer]:
                    problems.append(f"{where}: {layer} must not include {first} ({name})")
                if QT.match(first) and layer != "gui":
                    problems.append(f"{where}: Qt outside gui ({name})")
                if CUDA.match(name) and layer != "kernels":
                    problems.append(f"{where}: CUDA header outside kernels ({name})")
                if CUDA.match(name) and layer == "kernels" and path.suffix == ".h" and "cuda" not in path.stem:
                    problems.append(f"{where}: public header includes a CUDA header ({name})")
    return problems, files


def selftest() -> list[str]:
    """The checker itself must see planted mistakes."""
    import tempfile

    planted = {
        "kernels/a.h": '#include "engine/b.h"\n',
        "engine/b.cpp": '#include <QString>\n',
        "experiments/c.cpp": '#include "gui/d.h"\n',
        "gui/d.h": '#include "kernels/a.h"\n',
        "gui/f.cpp": 'command.add_option("PATH=VALUE", sets);\n',
        "engine/e.h": "#include <cuda_runtime.h>\n",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for layer in LAYERS:
            (root / layer).mkdir()
        for name, text in planted.items():
            (root / name).write_text(text)
        found, _ = check(root)
    missed = [name for name in planted if not any(name in problem for problem in found)]
    return [f"planted mistake in {name} was not seen" for name in missed]


def main() -> int:
    problems, files = check(pathlib.Path(sys.argv[1]))
    problems += selftest()
    for problem in problems:
        print(problem)
    print(f"{files} files checked, {len(problems)} problems")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
