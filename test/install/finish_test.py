#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""packaging/finish names every kind of file with its first commands, has the changes, and sums that check."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r"^project\(penstock VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
FILES = [f"penstock-{VERSION}-cp312-abi3-manylinux_2_34_x86_64.whl", f"penstock-{VERSION}-linux-x86_64.tar.zst",
         f"bookworm/penstock-tools_{VERSION}~deb12_amd64.deb", f"penstock-{VERSION}-linux-x86_64.oci.tar",
         f"penstock-{VERSION}-cp312-abi3-manylinux_2_34_aarch64.whl",
         f"penstock-{VERSION}-1.x86_64.rpm", f"penstock-{VERSION}.tar.gz", "penstock.spdx.json"]


class Finish(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def finish(self):
        return subprocess.run([ROOT / "packaging/finish", self.out], capture_output=True, text=True)

    def test_the_text_has_each_file_its_commands_and_the_changes_and_the_sums_check(self):
        for name in FILES:
            (self.out / name).parent.mkdir(exist_ok=True)
            (self.out / name).write_text(name)
        for _ in range(2):  # Another run takes its own files for none of the release.
            done = self.finish()
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = (self.out / "RELEASE.md").read_text()
        for name in FILES[:-1]:
            self.assertRegex(text, rf"\| {re.escape(Path(name).name)} \| \d+\.\d \|\n")
        self.assertIn(f"$ pip install {FILES[0]}\n$ penstock check\n", text)
        self.assertIn(f"$ sudo apt install ./penstock-tools_{VERSION}~deb12_amd64.deb "
                      f"./penstock-cufile_{VERSION}~deb12_amd64.deb\n", text)
        self.assertIn(f"$ ~/penstock-{VERSION}-linux-x86_64/bin/penstock check\n", text)
        self.assertIn(f" localhost/penstock:{VERSION} check\n", text)
        self.assertNotRegex(text[:text.index("## Changes")], r"\bNAME\b|\bSTEM\b|\bCUFILE\b|\bVERSION\b")
        self.assertIn("\n### Added\n", text[text.index("## Changes"):])
        check = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=self.out, capture_output=True, text=True)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        self.assertEqual(check.stdout.count(": OK"), len(FILES) + 1)

    def test_a_kind_that_is_not_there_is_not_named(self):
        (self.out / FILES[0]).write_text("wheel")
        self.assertEqual(self.finish().returncode, 0)
        named = (self.out / "RELEASE.md").read_text().split("## Changes")[0]
        self.assertNotIn("dnf", named)
        self.assertNotIn("podman", named)

    def test_an_empty_folder_is_refused(self):
        done = self.finish()
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no files", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
