# SPDX-License-Identifier: Apache-2.0

"""Reads what two witnesses say of a run: the guest's console, and the emulator's own log of NVMe data pointers.

The log has no names in it. The guest reads a block of the drive `near` that nothing else reads before and after each
operation: a mark. What the log shows between two marks belongs to the operation between them.
"""

import json
import re

FIRST_MARK = 1 << 26  # peer_probe.cc has it too.
MARKS_MAX = 1 << 16

LINE = re.compile(r"pci_nvme_(?:map_addr addr 0x(?P<address>[0-9a-f]+) len (?P<length>\d+)"
                  r"|read .*lba 0x(?P<block>[0-9a-f]+))")


def results_of(console):
    """The objects that the guest printed, in order; a line that was cut short is an object that says so."""
    for line in console.splitlines():
        at = line.find("@@ ")
        if at < 0:
            continue
        try:
            yield json.loads(line[at + 3:])
        except ValueError:
            yield {"case": "machine", "op": f"unreadable: {line.strip()}"}


def said_of(console, case):
    """What a tool printed in a case."""
    prefix = f"| {case} "
    return "\n".join(line.rstrip("\r")[len(prefix):] for line in console.splitlines()
                     if (line + " ").startswith(prefix))


def bytes_by_mark(log_lines, first, last):
    """{mark: bytes of data pointers inside [first, last] between this mark and the next}, and the sum of all."""
    counts, total, mark = {}, 0, None
    for line in log_lines:
        match = LINE.search(line)
        if not match:
            continue
        if match["block"]:
            number = int(match["block"], 16) - FIRST_MARK
            if 0 <= number < MARKS_MAX:
                mark = number
                counts.setdefault(mark, 0)
        elif first <= int(match["address"], 16) <= last:
            length = int(match["length"])
            total += length
            if mark is not None:
                counts[mark] += length
    return counts, total
