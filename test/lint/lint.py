#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Checks what a compiler cannot: who may include whom, that nothing is left out of the build, house style.

    lint.py [ROOT]

Prints one line a finding, `file:line: rule: what`, and exits 1 if there is any, 2 if ROOT holds nothing to check.
Rules read files only; lint_test.py shows each of them a tree that breaks it.
"""

import ast
import os
import posixpath
import re
import sys
from pathlib import Path

from imports import check_imports
from reach import Reach

# Who may include whom: a room's files may include headers of the rooms named here, or the one header, and their own.
# Nothing includes upward. Unit tests obey their room's row, and may include test/fakes besides. "tools/*" is the folder
# of a command, which knows no other command's.
MAY_INCLUDE = {
    "base": "",
    "core": "base",
    "storage": "base core",
    "plan": "base core",
    "weights": "base",
    "checksum": "base",
    "stripe": "base",
    "device": "base checksum core storage",
    "topology": "base core",
    "settings": "base core device",
    "path": "base core plan storage device topology",
    "stats": "base core path",
    "engine": "base core plan storage device topology path stats",
    "session": "base core settings plan storage device topology path stats engine",
    "frontend": "base checksum core stripe plan storage device topology path stats engine session "
                "penstock/gpu_layout.cuh",
    "capi": "base checksum core settings stripe plan storage device topology path stats engine session frontend "
            "include",
    "cufile": "base core settings plan storage device topology path stats engine session frontend capi include",
    "include": "",
    "kv": "base checksum include",
    "model": "base topology",
    "facts": "base settings topology include core/paths.h device/cuda/cuda_api.h",
    "tools/common": "facts base settings stripe topology stats include core/paths.h device/cuda/cuda_api.h",
    "tools/*": "tools/common facts base settings stripe topology stats include kv model bench core/p2pdma_needs.h",
    "tools": "tools/common tools/* k8s model/program facts base include",
    "k8s": "tools/common facts base settings topology include",
    "model/program": "tools/common base settings topology include model",
    "bench": "base include model device/cuda/cuda_api.h",
    "examples": "include",
    "python": "base include checksum kv topology weights",
}

# Programs ask facts/ about a machine: its headers bring what it speaks of, and no program reads one by itself.
MACHINE_FACTS = re.compile(r'^#include "(topology/(?!(?:root|text|test_tree)\.h)\w+\.h|settings/settings\.h)"'
                           r"|\bcore::((?:read|judge|load)_(?!all\b|first_line\b)\w+|\w+_transport|MountTable::read"
                           r"|captured_file|peer_route|distance_\w+(?<!_name))\(", re.MULTILINE)

GETENV_HOME = "src/base/environment.cc"
MUTEX_HOME = "src/base/mutex.h"
TERMINAL_HOME = "tools/common/terminal.cc"
PYTHON_TERMINAL_HOME = "python/penstock/terminal.py"
LINES_MAX = 500
PROGRAMS = ("facts/", "tools/", "k8s/", "model/")
SOURCE_LINES_MAX = 400  # Of src/, facts/, tools/, k8s/ and model/program/, but for tests.
FUNCTION_LINES_MAX = 40
VIRTUALS_MAX = 8  # Of a class, but for its destructor: more are several seams, each for those who use it.
# Longer, since each is one thing: as others have cut it, and as programs include it.
ONE_CONTRACT = {"include/cufile.h", "include/penstock/penstock.h", "include/penstock/penstock.hpp",
                "test/abi/headers/0.2/penstock/penstock.h"}
COLUMNS_MAX = 120

ROOMS = [room for room in MAY_INCLUDE if room != "include"]
SOURCES = {".cc", ".c", ".cpp"}
HEADERS = {".h", ".hpp"}
CODE = SOURCES | HEADERS | {".cu", ".cuh", ".py", ".sh", ".cmake", ".in"}
NOT_OURS = {"build", "node_modules", "__pycache__"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")
PRINTS = re.compile(
    r"(?<![\w.>])(?:v?f?printf|v?dprintf|f?puts|f?putc|putchar|perror|psignal|_?_?exit|_Exit|quick_exit)\s*\("
    r"|\b(?:cout|cerr|clog|stdout|stderr)\b")
PRINTS_RAW = re.compile(
    r"\b(?:fmt|std)::v?print(?:ln)?\s*\(|\bw?(?:cout|cerr|clog)\b|\b(?:stdout|stderr)\b"
    r"|(?<![\w.>])(?:v?f?printf|v?dprintf|f?puts|f?putc|putchar|fwrite|perror|psignal)\s*\("
    r"|(?<![\w.>])write\s*\(\s*(?:[12]|STD(?:OUT|ERR)_FILENO)\b")
JSON_TREE_HOME = "src/base/json_text.cc"
JSON_TREE = re.compile(r"\bnlohmann::(?:ordered_)?json\b(?!::(?:sax_parse|input_format_t))")
LOCKS = re.compile(r"\bstd::(?:\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock|shared_lock)\b")
SLEEPS = re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep)\b|(?<![\w.>])sleep\s*\(")
# Who else may: how tests wait at all, what runs beside the library as a stranger's program, what hangs on purpose, and
# where no time passes.
MAY_SLEEP = ("test/fakes/waiting.h", "test/fakes/fake_vendor/", "test/conformance/", "test/system/", "test/guest/",
             "test/simulation/", "test/stress/stress_test.cc", "test/stress/watchdog.cc")
FUNCTION = re.compile(r"(?:  )?(?!namespace\b|class\b|struct\b|enum\b|union\b|extern\b|(?:static |inline )?const)"
                      r"[A-Za-z~][^=]*\)(?: const| override| noexcept)* \{$")
LEFTOVER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : [^;{]*)? ?\{", re.MULTILINE)
VIRTUAL = re.compile(r"\bvirtual\b(?! ~)")
# A kernel module's files may be used under the kernel's licence, too.
LICENCE = re.compile(r"(?://|#| \*) SPDX-License-Identifier: Apache-2\.0(?: OR GPL-2\.0-only)?\n?")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:work|home|root|Users)/\w")


def is_not_ours(part):
    """Build folders, and what hides behind a dot: .git, editors' and machines' own."""
    return part in NOT_OURS or part.startswith("build-") or (part.startswith(".") and part != ".ci")


class Tree:
    """The files of a checkout, read once; `root` may hold build folders, which are passed over."""

    def __init__(self, root):
        self.root = Path(root)
        self.text = {}
        self.findings = []
        for path in sorted(self.paths()):
            inside = path.relative_to(self.root)
            if path.is_symlink():
                self.report(inside.as_posix(), 1, "link", "archives and some checkouts make a text file of it")
            elif path.is_file() and inside.parts[:2] != ("test", "fixtures"):
                try:
                    self.text[inside.as_posix()] = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    pass

    def paths(self):
        """Looks into no folder that is not ours: in those, files of builds and tests come and go meanwhile."""
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if not is_not_ours(name)]
            yield from (Path(folder, name) for name in [*folders, *files] if not is_not_ours(name))

    def of(self, kinds):
        return [name for name in self.text if Path(name).suffix in kinds]

    def report(self, name, line, rule, what):
        self.findings.append(f"{name}:{line}: {rule}: {what}")


def without_comments_and_strings(text):
    """The same lines, with comments, string and character literals emptied."""
    token = re.compile(r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'",
                       re.DOTALL)
    return token.sub(lambda match: "\n" * match.group().count("\n"), text)


def is_test(name):
    return name.endswith("_test.cc") or name.startswith("test/")


def room_of(name):
    parts = name.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "tools" and len(parts) > 2 or parts[:2] == ["model", "program"]:
        return f"{parts[0]}/{parts[1]}"
    return parts[0]


def row_of(room):
    """The rooms whose headers a room's files may include; None where nobody has said."""
    is_command = room.startswith("tools/") and room not in MAY_INCLUDE
    row = MAY_INCLUDE.get("tools/*" if is_command else room)
    return None if row is None else {room, *row.split()}


def is_allowed(target, allowed):
    return target in allowed or (target.startswith("tools/") and "tools/*" in allowed)


def room_of_include(tree, name, header):
    """The room a header belongs to, or None where it is not of this tree."""
    first = header.split("/")[0]
    if header == "cufile.h" or first == "penstock":
        return "include"
    if first in ("tools", "model"):
        return room_of(header) if header in tree.text else None
    if "/" in header and first in ROOMS:
        return first
    if "/" in header and f"test/{header}" in tree.text:
        return "test"
    if f"{room_of(name)}/{header}" in tree.text or (Path(name).parent / header).as_posix() in tree.text:
        return room_of(name)
    return None


def check_includes(tree):
    for name in tree.of(SOURCES | HEADERS):
        room = room_of(name)
        row = row_of(room)
        if row is None:
            if name.startswith("src/"):
                tree.report(name, 1, "include", f"no row for room {room} in MAY_INCLUDE of test/lint/lint.py")
            continue
        allowed = row | ({"test"} if is_test(name) else set())
        for number, line in enumerate(tree.text[name].splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = room_of_include(tree, name, match[2])
            if target is None and match[1] == '"':
                tree.report(name, number, "include", f'"{match[2]}" is no header of this tree; write "room/file.h"')
            elif target is not None and not is_allowed(target, allowed | ({target} if match[2] in allowed else set())):
                tree.report(name, number, "include", f"{room} may not include {match[2]} of {target}")


def check_reach(tree):
    code = {name: without_comments_and_strings(tree.text[name]) for name in tree.of({".cc", ".h", ".hpp"})
            if not is_test(name) and row_of(room_of(name)) is not None and "/tests/" not in name}
    reach = Reach(tree.text, code)
    for name in code:
        allowed = row_of(room_of(name))
        for used, homes in reach.lacks(name, lambda header: is_allowed(room_of(header), allowed)):
            line = next(number for number, text in enumerate(code[name].splitlines(), 1)
                        if re.search(rf"\b{used}\b", text))
            tree.report(name, line, "alone", f"{used} is of {' or '.join(homes)}, which it does not include")


def check_who_reads_machines(tree):
    for name in tree.of(SOURCES | HEADERS):
        if not name.startswith(("tools/", "k8s/")) or is_test(name):
            continue
        if found := MACHINE_FACTS.search(tree.text[name]):
            tree.report(name, tree.text[name][:found.start()].count("\n") + 1, "facts",
                        f"a program asks facts/ about a machine, and has no {found[1] or found[2]}")


def paths_named_by(name, text):
    """Every word of a CMakeLists.txt, read as a path from the root of the tree."""
    folder = posixpath.dirname(name)
    for word in re.findall(r'[^\s()"]+', re.sub(r"#[^\n]*", "", text)):
        word = word.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
        in_root = re.sub(r"^\$\{(?:PROJECT|CMAKE|penstock)_SOURCE_DIR\}/", "", word)
        yield posixpath.normpath(in_root if in_root != word else posixpath.join(folder, word))


def check_everything_is_built(tree):
    lists = [name for name in tree.text if Path(name).name == "CMakeLists.txt"]
    named = {path for name in lists for path in paths_named_by(name, tree.text[name])}
    for name in tree.of(SOURCES):
        if name not in named:
            tree.report(name, 1, "built", "no CMakeLists.txt lists it")
    for name in lists:
        is_a_project = re.search(r"^\s*project\s*\(", tree.text[name], re.MULTILINE)
        if not is_a_project and posixpath.dirname(name) not in named:
            tree.report(name, 1, "built", "no CMakeLists.txt adds this folder")


def check_library_manners(tree):
    for name in tree.of(SOURCES | HEADERS):
        if not name.startswith("src/") or is_test(name):
            continue
        for number, line in enumerate(without_comments_and_strings(tree.text[name]).splitlines(), 1):
            if GETENV.search(line) and name != GETENV_HOME:
                tree.report(name, number, "getenv", f"the environment is read in {GETENV_HOME} only")
            match = PRINTS.search(line)
            if match:
                tree.report(name, number, "quiet", f"the library neither prints nor exits: {match.group()}")
            if JSON_TREE.search(line) and name != JSON_TREE_HOME:
                tree.report(name, number, "json", f"a tree needs memory to be destroyed: see {JSON_TREE_HOME}")
            match = LOCKS.search(line)
            if match and name != MUTEX_HOME:
                tree.report(name, number, "locks", f"the library locks by {MUTEX_HOME}: {match.group()}")


def check_way_to_the_terminal(tree):
    for name in tree.of(SOURCES | HEADERS):
        if not name.startswith(PROGRAMS) or is_test(name) or name == TERMINAL_HOME:
            continue
        for number, line in enumerate(without_comments_and_strings(tree.text[name]).splitlines(), 1):
            match = PRINTS_RAW.search(line)
            if match:
                tree.report(name, number, "terminal", f"only print() of {TERMINAL_HOME} escapes: {match.group()}")


def is_way_to_the_terminal(node):
    """Whether the node of Python's syntax prints, or names a stream of the process."""
    if isinstance(node, ast.Name):
        return node.id in ("print", "input")
    if isinstance(node, ast.Attribute):
        return (isinstance(node.value, ast.Name) and node.value.id == "sys" and
                node.attr in ("stdout", "stderr", "__stdout__", "__stderr__", "displayhook"))
    if isinstance(node, ast.ImportFrom):
        return node.module == "sys" and any(name.name in ("stdout", "stderr") for name in node.names)
    return (isinstance(node, ast.Call) and ast.unparse(node.func) == "os.write" and bool(node.args) and
            isinstance(node.args[0], ast.Constant) and node.args[0].value in (1, 2))


def check_way_of_python_to_the_terminal(tree):
    for name in tree.of({".py"}):
        if not name.startswith("python/penstock/") or name == PYTHON_TERMINAL_HOME:
            continue
        for node in ast.walk(ast.parse(tree.text[name], name)):
            if is_way_to_the_terminal(node):
                tree.report(name, node.lineno, "terminal", f"only say() and complain() of {PYTHON_TERMINAL_HOME} "
                            f"escape: {ast.unparse(node)[:60]}")


def check_waiting(tree):
    for name in tree.of(SOURCES | HEADERS):
        if not is_test(name) or name.startswith(MAY_SLEEP):
            continue
        for number, line in enumerate(without_comments_and_strings(tree.text[name]).splitlines(), 1):
            match = SLEEPS.search(line)
            if match:
                tree.report(name, number, "waiting", f"tests wait by test/fakes/waiting.h: {match.group()}")


def check_headers(tree):
    for name in tree.of(HEADERS):
        text = LICENCE.sub("", tree.text[name], count=1)
        if not re.match(r"\s*(//|/\*)", text):
            tree.report(name, 1, "header", "opens without a comment on what it is for")
        if "#pragma once" not in text and not re.search(r"#ifndef (\w+)\s*\n\s*#define \1\b", text):
            tree.report(name, 1, "header", "no #pragma once or include guard")


def check_type_names(tree):
    """Two types of one name in one namespace are linked as one, and then memory is corrupted."""
    first = {}
    for name in sorted(tree.of(HEADERS)):
        text = without_comments_and_strings(tree.text[name])
        space = NAMESPACE.search(text)
        for match in TYPE.finditer(text) if space and name.startswith(("src/", *PROGRAMS)) else ():
            other = first.setdefault((space[1], match[1]), name)
            if other != name:
                tree.report(name, text[:match.start()].count("\n") + 1, "types",
                            f"{space[1]}::{match[1]} is also a type of {other}")


def check_seams(tree):
    for name in tree.of(HEADERS):
        text = without_comments_and_strings(tree.text[name])
        for begin in TYPE.finditer(text) if name.startswith("src/") else ():
            virtuals = VIRTUAL.findall(text[begin.end():].split("\n};", 1)[0])
            if len(virtuals) > VIRTUALS_MAX:
                tree.report(name, text[:begin.start()].count("\n") + 1, "seam",
                            f"{begin[1]} has {len(virtuals)} virtual methods; {VIRTUALS_MAX} are allowed")


def is_code(name, text):
    return Path(name).suffix in CODE or Path(name).name == "CMakeLists.txt" or text.startswith("#!")


def check_licences(tree):
    for name, text in tree.text.items():
        if is_code(name, text) and Path(name).suffix != ".in" and not LICENCE.search(text):
            tree.report(name, 1, "licence", "write SPDX-License-Identifier: Apache-2.0 at the top of the file")


def check_functions(tree, name, lines):
    """A function begins at a line that ends with ") {" or the like, and ends at a brace in the same column."""
    begin = None
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if begin is None and FUNCTION.match(line):
            begin = (number, indent)
        elif begin is not None and line == " " * begin[1] + "}":
            if number - begin[0] >= FUNCTION_LINES_MAX:
                tree.report(name, begin[0], "size",
                            f"{number - begin[0] + 1} lines in a function; {FUNCTION_LINES_MAX} are allowed")
            begin = None


def check_sizes(tree):
    for name, text in tree.text.items():
        if not is_code(name, text):
            continue
        lines = text.splitlines()
        is_source = name.startswith(("src/", "facts/", "tools/", "k8s/", "model/program/")) and not is_test(name)
        allowed = SOURCE_LINES_MAX if is_source else LINES_MAX
        if len(lines) > allowed and name not in ONE_CONTRACT:
            tree.report(name, len(lines), "size", f"{len(lines)} lines; {allowed} are allowed")
        if is_source and Path(name).suffix in SOURCES | HEADERS:
            check_functions(tree, name, lines)
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                tree.report(name, number, "size", f"{len(line)} columns; {COLUMNS_MAX} are allowed")


def check_words(tree):
    for name, text in tree.text.items():
        if name.startswith("test/lint/"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if LEFTOVER.search(line):
                tree.report(name, number, "words", "unfinished work without an issue: write TODO(#number)")
            match = MACHINE_PATH.search(line)
            if match:
                tree.report(name, number, "words", f"a path of somebody's machine: {match.group()}")


RULES = [check_includes, check_reach, check_imports, check_who_reads_machines, check_everything_is_built,
         check_library_manners, check_way_to_the_terminal, check_way_of_python_to_the_terminal, check_waiting,
         check_headers, check_type_names, check_seams, check_licences, check_sizes, check_words]


def lint(root):
    """All findings for the checkout at `root`; None if it holds no source at all."""
    tree = Tree(root)
    if not tree.of(SOURCES):
        return None
    for rule in RULES:
        rule(tree)
    return tree.findings


def main(arguments):
    root = arguments[1] if len(arguments) > 1 else Path(__file__).resolve().parents[2]
    findings = lint(root)
    if findings is None:
        print(f"lint: {root} holds no sources", file=sys.stderr)
        return 2
    print("\n".join(findings) if findings else "lint: nothing found")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
