#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""The manual as a site: site_test.py BUILD. The references name all that can be called, and a wrong link fails."""

import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
SCRIPT = importlib.machinery.SourceFileLoader("make_site", f"{ROOT}/scripts/make_site")
site = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_site", SCRIPT))
SCRIPT.exec_module(site)
os.environ["PENSTOCK_NO_INSTALL"] = "1"


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.pages, cls.out = Path(folder.name) / "pages", Path(folder.name) / "site"
        site.write_pages(BUILD, cls.pages)
        cls.api = {page.stem: page.read_text() for page in (cls.pages / "docs/reference/api").iterdir()}

    def test_every_function_of_the_headers_that_is_exported_is_declared(self):
        headers = "\n".join(text for name, text in self.api.items() if name.endswith(".h"))
        code = "\n".join(re.findall(r"(?ms)^```c\n(.*?)^```", headers))
        for library in ("capi/libpenstock", "cufile/libcufile"):
            exported = re.findall(r"\b((?:penstock_|cuFile(?!Object))\w+);", (ROOT / f"src/{library}.map").read_text())
            self.assertGreater(len(exported), 40)
            self.assertEqual([name for name in exported if not re.search(rf"\b{name}\s*\(", code)], [])

    def test_classes_show_what_is_public_without_bodies(self):
        text = self.api["penstock.hpp"]
        self.assertIn("  Result<FileInfo> info() const;\n", text)
        self.assertIn("### crc32c_combine\n", text)
        for hidden in ("private:", "raw_", "namespace detail", "whole_text", "return "):
            self.assertNotIn(hidden, re.sub(r"(?s)^.*?\n### ", "", text, count=1), hidden)

    def test_python_has_every_class_and_function_with_its_words(self):
        self.assertIn("### Store\n", self.api["penstock.kv"])
        self.assertIn("`progress: Progress`\n\n:   What puts and gets", self.api["penstock.kv"])
        self.assertIn("### CuFile\n", self.api["penstock.kvikio"])
        self.assertIn("### save\n", self.api["penstock.checkpoint"])
        self.assertIn("### default_session\n", self.api["penstock"])
        self.assertIn("`bytes: int`\n\n:   Bytes moved.", self.api["penstock"])  # Both of the native module.
        self.assertIn("`read(buffer: Any, offset: int=0, *,", self.api["penstock"])
        for name in site.MODULES:
            self.assertIn("### ", self.api[name], name)
            self.assertNotIn("### _", self.api[name], name)

    def test_a_link_to_a_folder_of_the_tree_is_left_as_its_words(self):
        self.assertIn("](../../integrations/deepspeed)", (ROOT / "docs/guide/replace.md").read_text())
        self.assertNotIn("](../../integrations/deepspeed)", (self.pages / "docs/guide/replace.md").read_text())

    def test_it_is_built_with_search_and_a_wrong_link_fails(self):
        try:
            site.build_site(self.pages, self.out)
        except SystemExit as ended:
            if "there is no MkDocs" in str(ended):
                self.skipTest(f"{ended}; ./dev docs installs it")
            raise
        index = json.loads((self.out / "search/search_index.json").read_text())
        places = {each["location"] for each in index["docs"]}
        self.assertIn("docs/reference/api/penstock.h.html#penstock_transfer", places)
        self.assertIn("docs/guide/install.html", places)
        page = self.pages / "docs/guide/install.md"
        page.write_text(page.read_text() + "\n[nowhere](nowhere.md)\n")
        with self.assertRaisesRegex(SystemExit, "'nowhere.md'"):
            site.build_site(self.pages, self.out)


if __name__ == "__main__":
    sys.exit(unittest.main())
