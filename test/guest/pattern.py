# SPDX-License-Identifier: Apache-2.0

"""What the drives of the emulated machine hold: at each offset a word that only this offset has.

peer_probe.cc makes the same words. Salt 0 is what images are made of; each write of a probe has a salt of its own.
"""

import array

MASK = (1 << 64) - 1
KIB = 1024
MIB = 1024 * KIB


def pattern(size, offset=0, salt=0):
    """The bytes that belong at [offset, offset + size); both are multiples of 8."""
    salted = salt * 0xD1B54A32D192ED03 & MASK
    factor = 0x9E3779B97F4A7C15
    return array.array("Q", [((at + 1) * factor & MASK) ^ salted for at in range(offset, offset + size, 8)]).tobytes()
