#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What README and guide show is what happens: commands_test.py BUILD [PAGE...]

Blocks fenced as `sh` are run, page by page and in order, each page in an empty folder, with the built tool and examples
in PATH and host memory for a GPU. Each has to end with exit code 0; 77 counts as skipped. /opt/penstock/lib stands for
the built libraries. Blocks fenced as `console` and `text` are shown only. C, C++ and CMake are parts of examples/, line
by line. Python is run by python/tests/test_guide.py.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parents[2]
SHOWN = {"console", "text"}
RUN_ELSEWHERE = {"python"}
CODE = {"c", "cpp", "cmake"}
SKIPPED = 77
SECONDS_MAX = 120


def tested_pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_part_of_an_example(text):
    wanted = lines_of(text)
    for path in (ROOT / "examples").iterdir():
        lines = lines_of(path.read_text(encoding="utf-8"))
        if any(lines[at:at + len(wanted)] == wanted for at in range(len(lines))):
            return True
    return False


def environment(build):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "CUFILE_"))}
    path = os.pathsep.join([str(build / "tools"), str(build / "examples"), os.environ["PATH"]])
    return {**clean, "PATH": path, "PENSTOCK_DEVICE": "host"}


def run_block(block, folder, build):
    """What went wrong, or None; and whether it was skipped."""
    text = block.text.replace("/opt/penstock/lib", str(build / "lib"))
    try:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment(build), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"runs for more than {SECONDS_MAX} seconds", False
    if done.returncode in (0, SKIPPED):
        return None, done.returncode == SKIPPED
    return f"ends with exit code {done.returncode}:\n{block.text}\n{done.stdout}", False


def check_page(path, build):
    page = markdown.Page(ROOT, path)
    ran, failures, skips = 0, [], []
    with tempfile.TemporaryDirectory(dir=build) as folder:
        for block in page.blocks:
            where, failure, skipped = f"{page.name}:{block.line}", None, False
            if block.kind == "sh":
                ran += 1
                failure, skipped = run_block(block, folder, build)
            elif block.kind in CODE:
                failure = None if is_part_of_an_example(block.text) else "is no part of a file in examples/"
            elif block.kind not in SHOWN | RUN_ELSEWHERE:
                failure = (f"has the fence '{block.kind}'; write sh, c, cpp, cmake or python (tested), console or text "
                           "(shown)")
            failures += [f"{where}: this block {failure}"] if failure else []
            skips += [where] if skipped else []
    return ran, failures, skips


def takes_direct_io(folder):
    with tempfile.TemporaryDirectory(dir=folder) as name:
        try:
            os.close(os.open(Path(name, "file"), os.O_CREAT | os.O_RDWR | os.O_DIRECT))
        except OSError:
            return False
    return True


def main():
    build, *names = [Path(argument).resolve() for argument in sys.argv[1:]]
    if not takes_direct_io(build):
        print(f"skipped: the file system of {build} takes no O_DIRECT, which some commands ask for")
        return SKIPPED
    ran, failures, skips = 0, [], []
    for path in names or tested_pages():
        page_ran, page_failures, page_skips = check_page(path, build)
        ran, failures, skips = ran + page_ran, failures + page_failures, skips + page_skips
    print("\n".join(failures))
    print(f"{ran} blocks of shell commands were run, {len(failures)} blocks are wrong")
    if failures or ran == 0:
        return 1
    if skips:
        print(f"skipped: exit code 77, does not apply on this machine: {', '.join(skips)}")
    return SKIPPED if skips else 0


if __name__ == "__main__":
    sys.exit(main())
