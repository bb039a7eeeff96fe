#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Writes an array to a file that appears when it is whole, and reads it back: read_array.py FILE

Each call returns what it did: which path moved the bytes, and why no better one. It needs numpy alone.
"""

import sys

import numpy as np

import penstock

values = np.arange(1_000_000, dtype=np.float32)
print("written:", penstock.write(sys.argv[1], values, replace=True))

back = np.empty_like(values)
with penstock.open(sys.argv[1]) as file:
    report = file.read(back)
print("read:", report)
print(f"the path is {report.path}, the reason {report.reason}; the arrays are equal: {(back == values).all()}")
