#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The man pages and the generated reference pages say what the build says: manual_test.py BUILD"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "dev").resolve()

sys.path.insert(0, str(ROOT / "scripts"))
import manual  # noqa: E402

HELP = """\
Copy a file
Usage: penstock cp [OPTIONS] SRC
       penstock cp --list

Positionals:
  SRC TEXT REQUIRED           What is copied

Options:
  -h,--help                   Print this
  --memory TEXT:{device,host}=device
                              device or host

How it is done:
  --direct                    Not by the page cache

Examples:
  penstock cp a      one
Exit code: 0 done,
1 failed.
Another word
on it.
"""


class Parsing(unittest.TestCase):
    def setUp(self):
        self.page = manual.Help(["penstock", "cp"], HELP)

    def test_each_part_of_a_help_text_is_found(self):
        self.assertEqual(self.page.summary, "Copy a file")
        self.assertEqual([line.strip() for line in self.page.usage],
                         ["penstock cp [OPTIONS] SRC", "penstock cp --list"])
        self.assertEqual(self.page.items("Positionals"), [["SRC TEXT REQUIRED", "What is copied"]])
        self.assertEqual(self.page.paragraphs, [["Exit code: 0 done,", "1 failed.", "Another word", "on it."]])

    def test_the_text_of_an_option_may_stand_on_the_next_line(self):
        self.assertEqual(self.page.items("Options")[1], ["--memory TEXT:{device,host}=device", "device or host"])

    def test_options_are_those_of_all_groups(self):
        self.assertEqual([term for term, _ in self.page.options()],
                         ["-h,--help", "--memory TEXT:{device,host}=device", "--direct"])

    def test_what_troff_would_take_for_a_request_is_escaped(self):
        self.assertEqual(manual.roff(".so x"), "\\&.so x")
        self.assertEqual(manual.roff("a\\b --c"), "a\\eb \\-\\-c")
        self.assertEqual(manual.roff("'list'"), "\\(aqlist\\(aq")

    def test_a_man_page_has_the_sections_that_readers_look_for(self):
        text = manual.man_page(self.page, ["penstock", "penstock-cp"], "1.2.3")
        for section in ("Name", "Synopsis", "Arguments", "Options", "Examples", "Exit status", "See also"):
            self.assertIn(f'.SH "{section.upper()}"\n', text)
        self.assertIn("\\fBpenstock\\fR(1)", text)
        self.assertNotIn("\\fBpenstock\\-cp\\fR(1)", text)

    def test_a_man_page_has_a_date_only_where_the_build_is_given_one(self):
        def title(seconds):
            with mock.patch.dict(os.environ, SOURCE_DATE_EPOCH=seconds):
                return manual.man_page(self.page, [], "1.2.3").splitlines()[0]

        self.assertEqual(title(""), '.TH "PENSTOCK-CP" 1 "" "penstock 1.2.3" "Penstock"')
        self.assertEqual(title("86400"), '.TH "PENSTOCK-CP" 1 "1970-01-02" "penstock 1.2.3" "Penstock"')
        with self.assertRaisesRegex(SystemExit, "SOURCE_DATE_EPOCH=yesterday is no time"):
            title("yesterday")

    def test_a_part_of_a_page_is_replaced_and_nothing_else(self):
        page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
        self.assertEqual(manual.with_part(page, "x", "new\n"), "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n")
        with self.assertRaises(SystemExit):
            manual.with_part("a\n", "x", "new\n")


class Built(unittest.TestCase):
    def test_every_command_has_a_man_page(self):
        with tempfile.TemporaryDirectory() as name:
            manual.write_man_pages(BUILD / "tools", "1.2.3", Path(name))
            pages = {path.name: path.read_text(encoding="utf-8") for path in Path(name).iterdir()}
        listing = subprocess.run([BUILD / "tools" / "penstock", "--help"], capture_output=True, text=True, check=True)
        commands = [term for term, _ in manual.Help(["penstock"], listing.stdout).items("Subcommands")]
        self.assertIn("explain", commands)
        programs = [path.name for path in (BUILD / "tools").iterdir() if path.is_symlink()]
        programs += ["penstock", "penstock-k8s", "penstock-model"]
        self.assertLessEqual({f"{program}.1" for program in programs}, set(pages))
        self.assertLessEqual({f"penstock-{command}.1" for command in commands if command != "help"}, set(pages))
        for name, text in pages.items():
            self.assertTrue(text.startswith((".TH ", ".so ")), name)

    def test_one_page_has_every_command_of_every_program(self):
        with tempfile.TemporaryDirectory() as name:
            page = Path(name, "docs", "command-line.md")
            manual.write_command_line(BUILD / "tools", page)
            text = page.read_text(encoding="utf-8")
        self.assertTrue(text.startswith("# Command line\n"))
        for title in ("penstock", "penstock kv verify", "penstock-k8s lint", "penstock-model load", "gdsio"):
            self.assertIn(f"\n## {title}\n\n```text\n", text)

    def test_the_reference_pages_say_what_the_build_says(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "manual.py", "pages", BUILD, "--check"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
