#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""groff warns of nothing in any man page: man_pages_test.py BUILD

Exits 77 where groff is not installed.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main():
    if shutil.which("groff") is None:
        print("skipped: groff is not installed, and man pages are not looked at (package groff)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder, "man1")  # As it is installed: pages may name others.
        subprocess.run([sys.executable, "-B", ROOT / "scripts" / "manual.py", "man", sys.argv[1], "1.2.3", pages],
                       check=True)
        warnings, count = "", 0
        for page in sorted(pages.iterdir()):
            done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", page], cwd=folder, capture_output=True, text=True,
                                  check=False)
            count += 1
            warnings += done.stderr
            if done.returncode != 0 or not done.stdout.strip():
                warnings += f"{page.name}: no text comes of it\n"
    print(f"{warnings}man_pages_test: {count} pages")
    return 1 if warnings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
