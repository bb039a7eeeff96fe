#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""What the guide shows is what happens: commands_test.py BUILD [PAGE...]

Each page's commands are run in order, one after the other in one shell, in a clean clone of the tree, with the built
tool and examples in PATH, what BUILD installs in place of /opt/penstock, host memory for a GPU, and a stand-in for a
cluster. Each has to end with exit code 0; 77 counts as skipped. Blocks fenced as `text` are shown only. C, C++ and
CMake are parts of examples/, line by line. Python is run by python/tests/test_guide.py. README.md and the guide to its
installation begin with a build of their own: readme_test.py.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import chain
import markdown

ROOT = chain.ROOT
SHOWN = {"console", "text"}
RUN_ELSEWHERE = {"python"}
CODE = {"c", "cpp", "cmake"}
OF_README = {"README.md", "docs/guide/install.md"}


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_part_of_an_example(text):
    wanted = lines_of(text)
    for path in (ROOT / "examples").iterdir():
        lines = lines_of(path.read_text(encoding="utf-8"))
        if any(lines[at:at + len(wanted)] == wanted for at in range(len(lines))):
            return True
    return False


def wrong_blocks(page):
    for block in page.blocks:
        where = f"{page.name}:{block.line}: this block "
        if block.kind in CODE and not is_part_of_an_example(block.text):
            yield where + "is no part of a file in examples/"
        elif block.kind not in CODE | SHOWN | RUN_ELSEWHERE | {"sh"}:
            yield where + (f"has the fence '{block.kind}'; write sh, console, c, cpp, cmake or python (tested), or "
                           "text (shown)")


def make_home(folder, build):
    """A folder of programs, and what BUILD installs."""
    programs, prefix = folder / "programs", folder / "prefix"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    for name in ("helm", "oc"):
        (programs / name).symlink_to(chain.STAND_INS / "kubectl")
    done = subprocess.run(["cmake", "--install", build, "--prefix", prefix], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"cmake --install failed:\n{done.stdout}{done.stderr}")
    return [chain.STAND_INS, programs, build / "tools", build / "examples"], prefix


def check_page(page, commands, folder, path, prefix):
    home, clone = folder / "home", chain.clean_clone(folder / "clone")
    (home / "drive").mkdir(parents=True)
    return chain.run_chain(commands, clone, chain.environment(home, path),
                           {"/opt/penstock": prefix, "/mnt/nvme0": home / "drive"})


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
        return chain.SKIPPED
    if not chain.can_clone():
        print("skipped: this tree is no git repository, or git is not installed: no clean clone can be made")
        return chain.SKIPPED
    pages = [markdown.Page(ROOT, path) for path in names or sorted((ROOT / "docs" / "guide").glob("*.md"))]
    ran, failures, skipped = 0, [], []
    with tempfile.TemporaryDirectory(dir=build) as everything:
        path, prefix = make_home(Path(everything), build)
        for page in pages:
            failures += wrong_blocks(page)
            commands = [] if page.name in OF_README else list(chain.commands_of(page))
            chain.tell_not_run(commands)
            if all(command.reason for command in commands):
                continue
            with tempfile.TemporaryDirectory(dir=everything) as folder:
                page_failures, page_skips = check_page(page, commands, Path(folder), path, prefix)
            ran += sum(command.reason is None for command in commands)
            failures, skipped = failures + page_failures, skipped + page_skips
    print("\n".join(failures))
    print(f"{ran} commands and blocks of them were run, {len(failures)} are wrong")
    if failures or ran == 0:
        return 1
    if skipped:
        print("skipped: exit code 77, does not apply on this machine: " +
              ", ".join(command.place() for command in skipped))
    return chain.SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
