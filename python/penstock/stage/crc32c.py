# SPDX-License-Identifier: Apache-2.0

"""The CRC32C of a file from those of its parts, without its bytes: arithmetic of polynomials over GF(2)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

POLYNOMIAL = 0x82F63B78  # Castagnoli's, the bit of x^0 first.
ONE = 1 << 31


def crc32c_of_all(parts: Iterable[tuple[int, int]]) -> int:
    """parts: (checksum, how many bytes), in their order."""
    found = 0
    for checksum, nbytes in parts:
        found = _product(_zeros(nbytes), found) ^ checksum
    return found


def _product(one: int, other: int) -> int:
    """Modulo the polynomial."""
    found = 0
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            found ^= other
        other = other >> 1 ^ (POLYNOMIAL if other & 1 else 0)
    return found


@cache
def _zeros(nbytes: int) -> int:
    """x to the power of the bits: what so many bytes behind them make of a checksum."""
    found, power, exponent = ONE, ONE >> 1, 8 * nbytes
    while exponent:
        if exponent & 1:
            found = _product(found, power)
        power, exponent = _product(power, power), exponent >> 1
    return found
