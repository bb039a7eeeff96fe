# SPDX-License-Identifier: Apache-2.0
"""How large the house is: product lines by room, and how long files, functions and lines are.

  size.py [COMMIT] [--tool PENSTOCK] [--build FOLDER]

A product line is any line, blank ones and comments too, of a .cc, .h, .hpp, .py, .js or .css file that git has, but for
docs/, test/ and tests/ at any depth, *_test.* and test_*.py, and headers that tests alone include. Without a commit
the files are counted as they lie here. With a tool, the commands that it lists and their leaves are counted too;
with a build folder, the objects that it compiles.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import json
import re
import statistics
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import lint

ROOT = Path(__file__).resolve().parents[2]
KINDS = {".cc", ".h", ".hpp", ".py", ".js", ".css"}
NO_TESTS = {"self_test"}  # The library's test of a path before it is used.
INCLUDE = re.compile(r'#include "(?:[^"]*/)?([^"/]+)"')
# The same rooms before and after a move, so that two commits can be compared.
MOVED = {"tools/k8s/": "k8s", "tools/model/": "model"}


@dataclass
class Room:
    files: list[int] = field(default_factory=list)
    functions: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)

    def add(self, other: Room) -> None:
        self.files += other.files
        self.functions += other.functions
        self.columns += other.columns


def is_product(name: str) -> bool:
    path = PurePosixPath(name)
    folders = path.parts[:-1]
    is_unit_test = path.stem.endswith("_test") and path.stem not in NO_TESTS
    is_test = is_unit_test or (path.suffix == ".py" and path.stem.startswith("test_"))
    return path.suffix in KINDS and not is_test and not {"test", "tests"} & {*folders} and folders[:1] != ("docs",)


def room_of(name: str) -> str:
    return next((room for folder, room in MOVED.items() if name.startswith(folder)), name.split("/")[0])


def python_functions(text: str) -> list[int]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.end_lineno - node.lineno + 1 for node in ast.walk(ast.parse(text)) if isinstance(node, functions)]


def braced_functions(lines: list[str]) -> list[int]:
    """As lint finds them: from a line that ends with ") {" or the like to a brace in the same column."""
    lengths, begin = [], None
    for number, line in enumerate(lines, 1):
        if begin is None and lint.FUNCTION.match(line):
            begin = (number, len(line) - len(line.lstrip()))
        elif begin is not None and line == " " * begin[1] + "}":
            lengths.append(number - begin[0] + 1)
            begin = None
    return lengths


def measured(name: str, text: str) -> Room:
    lines = text.splitlines()
    functions = python_functions(text) if name.endswith(".py") else braced_functions(lines)
    return Room([text.count("\n")], functions, [len(line) for line in lines if line.strip()])


def git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, stdout=subprocess.PIPE).stdout


def sources_of(commit: str) -> dict[str, str]:
    if not commit:
        names = git("ls-files", "-z").decode().split("\0")
        return {name: (ROOT / name).read_text(encoding="utf-8") for name in names
                if PurePosixPath(name).suffix in KINDS and (ROOT / name).is_file()}
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        return {one.name: archive.extractfile(one).read().decode() for one in archive
                if one.isfile() and PurePosixPath(one.name).suffix in KINDS}


def products_of(sources: dict[str, str]) -> set[str]:
    """The products, without headers that tests include and no product does; who uses installed headers is not here."""
    products = {name for name in sources if is_product(name)}
    while True:
        included = {header for name in products for header in INCLUDE.findall(sources[name])}
        by_tests = {header for name in sources.keys() - products for header in INCLUDE.findall(sources[name])}
        helpers = {name for name in products if not name.startswith("include/")
                   and PurePosixPath(name).name in by_tests - included}
        if not helpers:
            return products
        products -= helpers


def files_of(commit: str) -> dict[str, str]:
    sources = sources_of(commit)
    products = products_of(sources)
    return {name: text for name, text in sources.items() if name in products}


def rooms_of(files: dict[str, str]) -> dict[str, Room]:
    rooms: dict[str, Room] = collections.defaultdict(Room)
    for name, text in files.items():
        rooms[room_of(name)].add(measured(name, text))
    return dict(sorted(rooms.items()))


def median_and_p90(lengths: list[int]) -> str:
    if not lengths:
        return f"{'-':>6}{'-':>5}"
    ordered = sorted(lengths)
    return f"{statistics.median(ordered):>6.0f}{ordered[int(0.9 * (len(ordered) - 1))]:>5}"


def table(rooms: dict[str, Room]) -> str:
    whole = Room()
    for room in rooms.values():
        whole.add(room)
    text = f"{'':<14}{'lines':>8}{'files':>7}   file length  function length  columns\n"
    text += f"{'room':<14}{'':>15}   {'median p90':>11}{'median p90':>15}{'median p90':>15}\n"
    for name, room in [*rooms.items(), ("all", whole)]:
        text += f"{name:<14}{sum(room.files):>8}{len(room.files):>7}   {median_and_p90(room.files)}"
        text += f"    {median_and_p90(room.functions)}    {median_and_p90(room.columns)}\n"
    return text


def commands_of(tool: str, *names: str) -> list[str]:
    """The commands that `tool NAMES --help` lists."""
    said = subprocess.run([tool, *names, "--help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    _, heading, listed = said.partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z_0-9][\w-]*) ", listed.split("\n\n")[0], re.M) if heading else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="")
    parser.add_argument("--tool")
    parser.add_argument("--build", type=Path)
    asked = parser.parse_args()
    print(table(rooms_of(files_of(asked.commit))), end="")
    if asked.tool:
        listed = commands_of(asked.tool)
        leaves = {name: commands_of(asked.tool, name) for name in listed if name != "help"}
        print(f"commands: {len(listed)} listed, {sum(len(leaves.get(name) or [name]) for name in listed)} leaves")
    if asked.build:
        print(f"objects compiled: {len(json.loads((asked.build / 'compile_commands.json').read_text()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
