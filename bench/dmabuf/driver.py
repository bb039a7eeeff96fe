# SPDX-License-Identifier: Apache-2.0

"""The CUDA driver by ctypes, as far as export.py needs it: its calls, and the kinds of memory that it gives."""

import ctypes
import mmap
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p

ATTRIBUTES = {"dma_buf_supported": 124, "host_alloc_dma_buf_supported": 146, "gpu_direct_rdma_supported": 116,
              "gpu_direct_rdma_with_vmm_supported": 110, "memory_pools_supported": 115, "pool_handle_types": 119,
              "posix_handles_supported": 103}
POINTER = {"rdma_capable": (15, c_int), "buffer_id": (7, c_uint64), "block_id": (20, c_uint64),
           "range_start": (11, c_uint64), "range_bytes": (12, c_uint64)}
DMA_BUF_FD, POSIX_FD, PINNED, DEVICE, READ_WRITE = 1, 1, 1, 1, 3
RELEASE_THRESHOLD = 4


class Refused(Exception):
    """A call of the driver that failed; its text is the name of the error."""


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class PoolProperties(ctypes.Structure):
    _fields_ = [("allocation", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p),
                ("most", c_uint64), ("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 54)]


class Properties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("windows", c_void_p),
                ("compression", ctypes.c_ubyte), ("rdma", ctypes.c_ubyte), ("usage", ctypes.c_ushort),
                ("reserved", ctypes.c_ubyte * 4)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", c_int)]


assert ctypes.sizeof(PoolProperties) == 88 and ctypes.sizeof(Properties) == 32 and ctypes.sizeof(Access) == 12


class Driver:
    def __init__(self, ordinal):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.ordinal = ordinal
        self.call("cuInit", 0)
        self.device = self.get(c_int, "cuDeviceGet", ordinal)
        self.call("cuCtxSetCurrent", c_void_p(self.get(c_void_p, "cuDevicePrimaryCtxRetain", self.device)))

    def call(self, name, *arguments):
        function = getattr(self.library, name, None)
        if function is None:
            raise Refused(f"no {name} in this driver")
        code = function(*arguments)
        if code != 0:
            text = c_char_p()
            self.library.cuGetErrorName(code, byref(text))
            raise Refused(text.value.decode() if text.value else str(code))

    def get(self, kind, name, *arguments):
        """What a call stores by its first argument."""
        value = kind()
        self.call(name, byref(value), *arguments)
        return value.value

    def attribute(self, number):
        return self.get(c_int, "cuDeviceGetAttribute", number, self.device)

    def pointer(self, name, address):
        number, kind = POINTER[name]
        try:
            return self.get(kind, "cuPointerGetAttribute", number, c_uint64(address))
        except Refused as refused:
            return str(refused)

    def text(self, name):
        text = ctypes.create_string_buffer(256)
        self.call(name, text, len(text), self.device)
        return text.value.decode()

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def export(self, address, size, flags=0):
        return self.get(c_int, "cuMemGetHandleForAddressRange", c_uint64(address), c_uint64(size), DMA_BUF_FD,
                        c_uint64(flags))

    def location(self):
        return Location(DEVICE, self.ordinal)


class Plain:
    name = "cuMemAlloc"

    def __init__(self, driver):
        self.driver = driver

    def allocate(self, size):
        return self.driver.get(c_uint64, "cuMemAlloc_v2", c_uint64(size))

    def free(self, address, _size):
        self.driver.call("cuMemFree_v2", c_uint64(address))


class Managed(Plain):
    name = "cuMemAllocManaged"

    def allocate(self, size):
        return self.driver.get(c_uint64, "cuMemAllocManaged", c_uint64(size), 1)


class HostAllocated(Plain):
    name = "cuMemHostAlloc"

    def allocate(self, size):
        return self.driver.get(c_void_p, "cuMemHostAlloc", c_uint64(size), 0)

    def free(self, address, _size):
        self.driver.call("cuMemFreeHost", c_void_p(address))


class HostRegistered(Plain):
    name = "cuMemHostRegister"

    def allocate(self, size):
        self.pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address = ctypes.addressof(ctypes.c_ubyte.from_buffer(self.pages))
        self.driver.call("cuMemHostRegister_v2", c_void_p(address), c_uint64(size), 0)
        return address

    def free(self, address, _size):
        self.driver.call("cuMemHostUnregister", c_void_p(address))


class Pool(Plain):
    """Memory of a pool: the device's own; one whose memory others may open; or one that keeps what is freed."""

    def __init__(self, driver, what="default"):
        super().__init__(driver)
        self.name, self.what, self.pool = f"cuMemAllocAsync, {what} pool", what, None

    def made(self):
        if self.what == "default":
            return self.driver.get(c_void_p, "cuDeviceGetDefaultMemPool", self.driver.device)
        handles = POSIX_FD if self.what == "exportable" else 0
        properties = PoolProperties(allocation=PINNED, handles=handles, location=self.driver.location())
        pool = self.driver.get(c_void_p, "cuMemPoolCreate", byref(properties))
        if self.what == "keeping":
            self.driver.call("cuMemPoolSetAttribute", c_void_p(pool), RELEASE_THRESHOLD, byref(c_uint64(2**64 - 1)))
        return pool

    def allocate(self, size):
        self.pool = self.pool or self.made()
        address = self.driver.get(c_uint64, "cuMemAllocFromPoolAsync", c_uint64(size), c_void_p(self.pool), None)
        self.driver.call("cuStreamSynchronize", None)
        return address

    def free(self, address, _size):
        self.driver.call("cuMemFreeAsync", c_uint64(address), None)
        self.driver.call("cuStreamSynchronize", None)


class Mapped(Plain):
    """Memory of cuMemCreate: of one handle, or of two that lie side by side."""

    def __init__(self, driver, rdma=False, exportable=False, handles=1):
        super().__init__(driver)
        self.rdma, self.exportable, self.handles = rdma, exportable, handles
        words = {"cuMemCreate": True, "RDMA": rdma, "exportable": exportable, "two handles": handles == 2}
        self.name = ", ".join(word for word, is_so in words.items() if is_so)

    def allocate(self, size):
        properties = Properties(type=PINNED, handles=POSIX_FD if self.exportable else 0,
                                location=self.driver.location(), rdma=self.rdma)
        start = self.driver.get(c_uint64, "cuMemAddressReserve", c_uint64(size), c_uint64(0), c_uint64(0), c_uint64(0))
        part = size // self.handles
        for address in range(start, start + size, part):
            handle = self.driver.get(c_uint64, "cuMemCreate", c_uint64(part), byref(properties), c_uint64(0))
            self.driver.call("cuMemMap", c_uint64(address), c_uint64(part), c_uint64(0), c_uint64(handle), c_uint64(0))
            self.driver.call("cuMemRelease", c_uint64(handle))
        access = Access(self.driver.location(), READ_WRITE)
        self.driver.call("cuMemSetAccess", c_uint64(start), c_uint64(size), byref(access), c_uint64(1))
        return start

    def free(self, address, size):
        part = size // self.handles
        for start in range(address, address + size, part):
            self.driver.call("cuMemUnmap", c_uint64(start), c_uint64(part))
        self.driver.call("cuMemAddressFree", c_uint64(address), c_uint64(size))
