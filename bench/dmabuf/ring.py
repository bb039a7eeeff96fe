# SPDX-License-Identifier: Apache-2.0

"""What this kernel says to dma-bufs as buffers of io_uring, by bare system calls: no liburing, no CUDA."""

import ctypes
import errno
import mmap
import os
from pathlib import Path

SETUP, REGISTER = 425, 427
TABLE, UPDATE = 15, 16
SPARSE, EXTENDED = 1, 2
EMPTY, DMA_BUF = 0, 2
LIBC = ctypes.CDLL(None, use_errno=True)


class Table(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("zero", ctypes.c_uint64 * 3)]


class Update(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("data", ctypes.c_void_p),
                ("tags", ctypes.c_void_p), ("count", ctypes.c_uint32), ("zero", ctypes.c_uint32)]


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("size", ctypes.c_uint64),
                ("address", ctypes.c_uint64), ("dma_buf", ctypes.c_int32), ("target", ctypes.c_int32),
                ("zero", ctypes.c_uint64 * 6)]


class Vector(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("size", ctypes.c_size_t)]


assert ctypes.sizeof(Table) == ctypes.sizeof(Update) == 32 and ctypes.sizeof(Description) == 80


def error_name(number):
    return errno.errorcode.get(number, "ENOTSUPP (524)" if number == 524 else str(number))


def system(*words):
    """What a system call returned, or the name of its error."""
    result = LIBC.syscall(*(ctypes.c_long(word) if isinstance(word, int) else word for word in words))
    return result if result >= 0 else error_name(ctypes.get_errno())


def update(ring, flags, data):
    words = Update(flags=flags, data=ctypes.addressof(data), count=1)
    return system(REGISTER, ring, UPDATE, ctypes.byref(words), ctypes.sizeof(words))


def described(ring, kind, dma_buf=0, target=0):
    return update(ring, EXTENDED, Description(type=kind, dma_buf=dma_buf, target=target))


def ordinary(ring):
    page = mmap.mmap(-1, mmap.PAGESIZE)
    return update(ring, 0, Vector(ctypes.addressof(ctypes.c_ubyte.from_buffer(page)), mmap.PAGESIZE))


def opened(folder):
    """A new file of 1 MiB in the folder without a name, past the page cache where that can be."""
    flags = os.O_TMPFILE | os.O_RDWR
    try:
        fd = os.open(folder, flags | os.O_DIRECT, 0o600)
    except OSError:
        fd = os.open(folder, flags, 0o600)
    os.ftruncate(fd, 1 << 20)
    return fd


def answers(export, folder):
    """Rows of what was asked and what the kernel said; `export` is the fd of a dma-buf, or None."""
    switch = Path("/proc/sys/kernel/io_uring_disabled")
    rows = [("kernel.io_uring_disabled", switch.read_text().strip() if switch.exists() else "not there")]
    ring = system(SETUP, 4, ctypes.create_string_buffer(120))
    rows.append(("io_uring_setup", ring if isinstance(ring, str) else "ok"))
    if isinstance(ring, str):
        return rows
    table = Table(count=2, flags=SPARSE)
    rows.append(("a table of 2", system(REGISTER, ring, TABLE, ctypes.byref(table), ctypes.sizeof(table))))
    rows.append(("an ordinary buffer into it", ordinary(ring)))
    rows.append(("an empty description, extended", described(ring, EMPTY)))
    rows.append(("a dma-buf, descriptors -1 and -1", described(ring, DMA_BUF, -1, -1)))
    if export is not None:
        target = opened(folder)
        rows.append(("a dma-buf of the GPU, a file of the disk", described(ring, DMA_BUF, export, target)))
        os.close(target)
    os.close(ring)
    return rows
