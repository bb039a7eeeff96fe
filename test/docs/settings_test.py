#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""docs/reference/settings.md has the tables that the tool prints, and no page names a variable that there is not:
settings_test.py BUILD
"""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build" / "dev").resolve()
REFERENCE = ROOT / "docs" / "reference"
PAGE = REFERENCE / "settings.md"
FILE = "CUFILE_ENV_PATH_JSON"  # Says where settings are, and is none.

sys.path.insert(0, str(ROOT / "scripts"))
import manual  # noqa: E402


def settings():
    """What the tool tells programs; 1 where this environment has something that makes no sense."""
    done = subprocess.run([BUILD / "tools" / "penstock", "settings", "--all", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["settings"]


class Settings(unittest.TestCase):
    def setUp(self):
        self.page = PAGE.read_text(encoding="utf-8")

    def test_the_tables_are_those_that_the_tool_prints(self):
        self.assertEqual(manual.with_part(self.page, "settings", manual.settings(BUILD)), self.page,
                         "./dev manual rewrites it")

    def test_every_setting_is_on_the_page_by_each_of_its_names(self):
        told = set(re.findall(r"`([^`\n]+)`", self.page))
        names = {setting[part] for setting in settings() for part in ("name", "variable")} - {None}
        self.assertGreater(len(names), 100)
        self.assertEqual(sorted((names | {FILE}) - told), [])

    def test_no_page_names_a_variable_that_nothing_reads(self):
        known = {setting["variable"] for setting in settings()} | {FILE}
        known |= set(re.findall(r"`(PENSTOCK_\w+)`", self.page.partition("## Variables of `./dev`")[2]))
        # Numbers of the interface are no variables.
        for header in (ROOT / "include" / "penstock").glob("*.h"):
            known |= set(re.findall(r"\b(PENSTOCK_\w+)(?: =| \d)", header.read_text(encoding="utf-8")))
        # What a kernel's source defines before it includes a device header.
        for header in (ROOT / "include" / "penstock").glob("*.cuh"):
            known |= set(re.findall(r"\bdefined\((PENSTOCK_\w+)\)", header.read_text(encoding="utf-8")))
        # Names of 0.1 that are gone stand in the first column of the page for its programs.
        past = (REFERENCE / "from-0.1.md").read_text(encoding="utf-8")
        known |= set(re.findall(r"^\| `(PENSTOCK_\w+)`", past, re.MULTILINE))
        for page in [ROOT / "README.md", *(ROOT / "docs" / "guide").glob("*.md"), *REFERENCE.glob("*.md")]:
            named = set(re.findall(r"\bPENSTOCK_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")))
            self.assertEqual(sorted(named - known), [], page.name)


if __name__ == "__main__":
    sys.exit(unittest.main())
