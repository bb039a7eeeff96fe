#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Exported symbols equal a list: symbols_test.py LIBRARY MAP SONAME ARCHIVE...

The list is the library's export map; what the linker made of it is read back with nm, so a symbol that is declared and
not defined, or defined and not listed, fails. Symbols carry the version that the map names, or none where it names
none. No object of the archives that it is made of may have something destroyed when a process exits: threads that move
bytes go on until the process is gone.
"""

import re
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    library, export_map, soname, *archives = sys.argv[1:]
    with open(export_map, encoding="utf-8") as file:
        text = file.read()
    version = re.match(r"\s*(\S*)\s*{", text)[1]
    suffix = f"@@{version}" if version else ""
    listed = {name + suffix for name in re.findall(r"^\s+(\w+);", text.split("local:")[0], re.M)}
    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()} - {version}
    problems = [f"listed and not exported: {name}" for name in sorted(listed - exported)]
    problems += [f"exported and not listed: {name}" for name in sorted(exported - listed)]
    if not listed:
        problems.append("the list is empty")
    dynamic = output("readelf", "-d", library)
    if f"[{soname}]" not in dynamic:
        problems.append(f"SONAME is not {soname}")
    if "NODELETE" not in dynamic:
        problems.append("not linked with -z nodelete")
    if re.search(r"NEEDED.*(cuda|uring|cufile)", dynamic):
        problems.append("needs a library that must be loaded at run time or linked statically")
    undefined = output("nm", "--print-file-name", "--undefined-only", *archives).splitlines()
    problems += [f"destroys something static: {line.split()[0]}" for line in undefined if "__cxa_atexit" in line]
    print("\n".join(problems) or f"{library}: {len(listed)} symbols, as listed")
    return 1 if problems else 0


sys.exit(main())
