# SPDX-License-Identifier: Apache-2.0

"""A program that loads libcufile.so.0 by its name, for tests of what comes in front of it."""

USES_CUFILE = """
import ctypes
class Error(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("cu_err", ctypes.c_int)]
cufile = ctypes.CDLL("libcufile.so.0")
cufile.cuFileDriverOpen.restype = Error
assert cufile.cuFileDriverOpen().err == 0
print(open("/proc/self/maps").read())
raise SystemExit(3)
"""
