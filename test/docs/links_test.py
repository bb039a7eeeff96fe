#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Whatever a page of the manual points at is there: files, headings, paths of this repository in backticks; and so is
every page that a file of code names. Its prose is wrapped.
"""

import re
import sys
import unittest
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parents[2]
TOP = ("bench", "cmake", "docs", "examples", "include", "integrations", "model", "scripts", "src", "test", "tools")
ROOMS = tuple(path.name for path in (ROOT / "src").iterdir() if path.is_dir())
PAGE_NAMED = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")
COLUMNS_MAX = 100  # Of prose; a row of a table is one line however long.
MANUAL = ("docs/", "README.md", "CONTRIBUTING.md", "SECURITY.md")
CODE = ("*.cc", "*.c", "*.h", "*.hpp", "*.py", "*.sh", "*.md", "CMakeLists.txt", "*.cmake", "dev")


def exists(path):
    """As it stands; with `*` in it; or a program, by its source. NAME stands for any part."""
    pattern = re.sub(r"\b[A-Z]{3,}\b", "*", path.rstrip("/"))
    if "*" in pattern:
        return any(ROOT.glob(pattern))
    return (ROOT / pattern).exists() or (ROOT / (pattern + ".cc")).exists()


def path_in(span):
    """The path of this repository that a code span begins with, or None."""
    word = span.split()[0].removeprefix("./") if span.strip() else ""
    first, slash, rest = word.partition("/")
    if not slash or re.search(r"[$<>(){}:=,]", word):
        return None
    if first in TOP:
        return word
    if first in ROOMS and rest.endswith((".h", ".cc")):
        return "src/" + word
    return None


class Manual(unittest.TestCase):
    def setUp(self):
        self.pages = markdown.pages(ROOT)
        self.wrong = []

    def tearDown(self):
        if self.wrong:
            self.fail("\n" + "\n".join(self.wrong))

    def test_the_manual_is_found(self):
        self.assertIn("README.md", [page.name for page in self.pages])
        self.assertGreater(len(self.pages), 10)

    def test_every_link_leads_to_a_file_and_a_heading(self):
        for page in self.pages:
            for number, target in page.links():
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, anchor = target.partition("#")
                path = (page.path.parent / name).resolve() if name else page.path
                if not path.exists():
                    self.wrong.append(f"{page.name}:{number}: no file {target}")
                elif anchor and anchor not in markdown.Page(ROOT, path).anchors():
                    self.wrong.append(f"{page.name}:{number}: no heading for {target}")

    def test_every_path_in_backticks_exists(self):
        for page in self.pages:
            for number, span in page.code_spans():
                path = path_in(span)
                if path is not None and not exists(path):
                    self.wrong.append(f"{page.name}:{number}: no {path} in this repository")

    def test_every_page_that_a_file_names_exists(self):
        for pattern in CODE:
            for path in markdown.files(ROOT, pattern):
                if path.parts[-3:-1] in (("test", "lint"), ("test", "docs")):
                    continue
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    for name in PAGE_NAMED.findall(line):
                        if not (ROOT / name).exists():
                            self.wrong.append(f"{path.relative_to(ROOT)}:{number}: no page {name}")

    def test_the_index_of_decisions_names_each(self):
        text = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
        index, _, decisions = " ".join(text.partition("## Decisions")[2].split()).partition(" ### ")
        for title in re.findall(r"\*\*(.+?)[.,]?\*\*", decisions.partition(" ## ")[0]):
            if title not in index:
                self.wrong.append(f"docs/internals/architecture.md: the index of decisions lacks: {title}")

    def test_prose_is_wrapped(self):
        for page in self.pages:
            for number, line in page.prose if page.name.startswith(MANUAL) else []:
                if len(line) > COLUMNS_MAX and not line.startswith("|"):
                    self.wrong.append(f"{page.name}:{number}: {len(line)} columns; {COLUMNS_MAX} are allowed")


class Rules(unittest.TestCase):
    """What the tests above would pass over if these were wrong."""

    def test_a_path_is_recognised_by_its_first_folder(self):
        self.assertEqual(path_in("src/plan"), "src/plan")
        self.assertEqual(path_in("scripts/with_filesystems COMMAND"), "scripts/with_filesystems")
        self.assertEqual(path_in("base/status.h"), "src/base/status.h")
        for other in ("/etc/cufile.json", "penstock cp", "session.file()", "build/release/tools/penstock"):
            self.assertIsNone(path_in(other))

    def test_what_is_missing_is_missing(self):
        self.assertTrue(exists("test/fixtures/machines/NAME"))
        self.assertFalse(exists("test/fixtures/no-such/NAME"))
        self.assertFalse(exists("src/no_such.h"))

    def test_an_anchor_is_spelt_as_github_does(self):
        page = markdown.Page.__new__(markdown.Page)
        page.prose = [(1, "# What's `this`: a test"), (2, "## Twice"), (3, "## Twice")]
        self.assertEqual(list(page.anchors()), ["whats-this-a-test", "twice", "twice-1"])


if __name__ == "__main__":
    sys.exit(unittest.main())
