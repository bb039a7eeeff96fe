#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""docs/reference/settings.md names every setting that the library reads, and none that it does not.

What it reads is what stands in src/ as a text: a variable of ours, or a key or variable of cuFile's.
"""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
SECTIONS = "logging|profile|execution|properties|fs|block|denylist|sparse|miscellaneous"
VARIABLE = r"(?:PENSTOCK|CUFILE)_[A-Z0-9_]+"
KEY = rf"(?:{SECTIONS})(?:\.\w+)+"


def read_by_the_library():
    names = set()
    for path in (ROOT / "src").rglob("*"):
        if path.suffix in (".h", ".cc") and not path.name.endswith("_test.cc"):
            text = path.read_text(encoding="utf-8")
            names.update(re.findall(rf'(?<!former = )"({VARIABLE})"', text))
            if "settings" in path.parts:
                names.update(re.findall(rf'\.key = "({KEY})"', text))
    return names


def told_by_the_page():
    reads = PAGE.partition("## Variables of `./dev`")[0]
    return set(re.findall(rf"`({VARIABLE}|{KEY})`", reads))


class Settings(unittest.TestCase):
    def test_what_the_library_reads_is_found(self):
        names = read_by_the_library()
        self.assertTrue({"PENSTOCK_PATHS", "CUFILE_ENV_PATH_JSON", "properties.allow_compat_mode"} <= names, names)

    def test_each_setting_is_on_the_page(self):
        self.assertEqual(sorted(read_by_the_library() - told_by_the_page()), [])

    def test_the_page_has_no_variable_that_nothing_reads(self):
        variables = {name for name in told_by_the_page() if name.startswith("PENSTOCK_")}
        self.assertEqual(sorted(variables - read_by_the_library()), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
