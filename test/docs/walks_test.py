#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The diffs of docs/internals/examples, a path, device, finding and command, are as the tree is: walks_test.py BUILD

Each applies to a copy of the tree, with no files but those that its page names, keeps the house rules there, and
compiles: with the options of the files of BUILD beside it, the syntax alone.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/lint"))
import compiled  # noqa: E402

BUILD = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "dev").resolve()
EXAMPLES = ROOT / "docs" / "internals" / "examples"

# What a walk touches besides new files in one folder: its row, CMake, docs.
WALKS = {
    "adding-a-path": ("src/path", {"src/core/paths.h", "src/path/CMakeLists.txt", "docs/internals/paths.md"}),
    "adding-a-device": ("src/device", {"src/device/providers.cc", "src/device/CMakeLists.txt"}),
    "adding-a-finding": (".", {"facts/examination.h", "facts/examination.cc", "facts/CMakeLists.txt"}),
    "adding-a-command": ("tools", {"tools/main.cc", "tools/CMakeLists.txt"}),
}


def commands():
    """How BUILD compiles each file, as words, by its path in the tree."""
    return {os.path.relpath(file, ROOT): shlex.split(command) for file, command in compiled.commands_of(BUILD).items()}


def copy_of_the_tree(folder):
    def left_out(_, names):
        return [name for name in names if name.startswith((".", "build")) or name == "__pycache__"]

    copy = Path(folder) / "tree"
    shutil.copytree(ROOT, copy, ignore=left_out, symlinks=True)
    return copy


def apply(diff, tree):
    command = ["git", "apply", "--unsafe-paths", "-p1", str(diff)]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)})


def like(name, known):
    """The file of the build whose options go for `name`: itself, or its room's first test or other source."""
    if name in known:
        return name
    room = "/".join(name.split("/")[:2]) if name.startswith("src/") else name.split("/", maxsplit=1)[0]
    is_test = name.endswith("_test.cc")
    return next(other for other in sorted(known)
                if other.startswith(room + "/") and other.count("/") >= name.count("/")
                and other.endswith("_test.cc") == is_test)


def syntax_errors(name, tree, known):
    words = known[like(name, known)]
    end = words.index("-o")
    options = [re.sub(rf"^-I{re.escape(str(ROOT))}(?!/build)", f"-I{tree}", word) for word in words[:end]]
    while "-include" in options:  # Headers that were compiled before, which are not this tree's.
        at = options.index("-include")
        del options[at:at + 2]
    if "ccache" in options[0]:
        options = options[1:]
    done = subprocess.run([*options, "-fsyntax-only", str(tree / name)], cwd=BUILD, capture_output=True, text=True,
                          check=False)
    return "" if done.returncode == 0 else f"{name}:\n{done.stderr}"


class Walks(unittest.TestCase):
    def test_each_page_shows_its_diff_and_each_diff_has_its_page(self):
        self.assertEqual({path.stem for path in EXAMPLES.glob("*.diff")}, set(WALKS))
        for name in WALKS:
            page = (EXAMPLES.parent / f"{name}.md").read_text(encoding="utf-8")
            self.assertIn(f"(examples/{name}.diff)", page)

    def test_a_walk_touches_its_folder_its_row_cmake_and_docs_alone(self):
        for name, (home, places) in WALKS.items():
            text = (EXAMPLES / f"{name}.diff").read_text(encoding="utf-8")
            touched = set(re.findall(r"^\+\+\+ b/(\S+)$", text, re.M))
            new = touched - places
            self.assertEqual(touched - new, places, name)
            self.assertEqual({str(Path(file).parent.parent) for file in new}, {home}, new)
            self.assertEqual(len({Path(file).parent for file in new}), 1, new)

    def test_all_of_them_apply_keep_the_house_rules_and_compile(self):
        known = commands()
        with tempfile.TemporaryDirectory() as folder:
            tree = copy_of_the_tree(folder)
            sources = []
            for name in WALKS:
                diff = EXAMPLES / f"{name}.diff"
                done = apply(diff, tree)
                self.assertEqual(done.returncode, 0, f"{name}.diff: write it anew, as the tree is\n{done.stderr}")
                sources += re.findall(r"^\+\+\+ b/(\S+\.cc)$", diff.read_text(encoding="utf-8"), re.M)
            lint = subprocess.run([sys.executable, "-B", tree / "test" / "lint" / "lint.py", tree],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(lint.returncode, 0, lint.stdout + lint.stderr)
            # Tables whose rows the compiler reads are not among a walk's own sources.
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                errors = pool.map(lambda name: syntax_errors(name, tree, known), [*sources, "src/path/paths.cc"])
            self.assertEqual("".join(errors), "")


if __name__ == "__main__":
    if shutil.which("git") is None:
        print("skipped: git is not installed")
        sys.exit(77)
    sys.exit(unittest.main())
