# SPDX-License-Identifier: Apache-2.0

"""What the smoke tests of all clients share: how they start on our library, memory to read into, checks, a report.

A smoke test runs an unmodified client on our libcufile.so.0. It prints a line a check and closes with `OK NAME VERSION`
(exit code 0), `FAILED ...` (1) or `SKIPPED ...` (77, where the client or a GPU is not there). It needs nothing besides
Python and the client: GPU memory comes straight from the CUDA driver. Where PENSTOCK_DEVICE=host and the client does
not mind, host memory takes its place.
"""

import argparse
import ctypes
import os
import random
import sys
import tempfile
import traceback

# Size, offset in the file, offset in the memory: aligned, odd, small, larger than a chunk, and none of them aligned.
RANGES = [
    (4096, 0, 0),
    (65536, 4096, 8192),
    (1, 0, 0),
    (1, 4097, 4095),
    (511, 513, 1),
    (4095, 1, 3),
    (4098, 4095, 1),
    (1048577, 123457, 65537),
    (2097152, 0, 0),
]
FILE_SIZE = 3 * 1024 * 1024 + 77  # The last bytes fill no block.
MEMORY_SIZE = 4 * 1024 * 1024
TAIL = (65536, FILE_SIZE - 1000, 5)  # Reads 1000 bytes, then meets the end.
SURROUNDINGS = 0xA5  # Fills memory before a read: what lies around the bytes must stay.
NOT_TOLD = "not told"  # For clients that return no count; the bytes are compared all the same.


class Failed(Exception):
    """A client did not do what its own interface promises."""


class Smoke:
    """One run of one client. Use run() to make it."""

    def __init__(self, name, library, directory):
        self.name = name
        self.library = library
        self.directory = directory
        self.version = "unknown version"  # The client's, as soon as it is known: a failure names it too.
        self.checks = 0
        self.failures = 0
        self._ours = None

    def check(self, what, truth):
        """Counts and prints; the run goes on, since one wrong answer rarely explains the next."""
        self.checks += 1
        self.failures += not truth
        print(f"{'ok    ' if truth else 'WRONG '} {what}", flush=True)

    def attempt(self, what, action):
        """As check(), of an action that may raise; returns its result, None where it raised."""
        try:
            result = action()
        except Exception as error:  # Whatever a client raises is the finding.
            self.check(f"{what}: {type(error).__name__}: {error}", False)
            return None
        self.check(what, True)
        return result

    def skip(self, why):
        print(f"SKIPPED {self.name}: {why}", flush=True)
        sys.exit(77)

    def path(self, name):
        return os.path.join(self.directory, name)

    def ours(self):
        """Our library as the process has it. Penstock's own calls tell what it did for the client."""
        if self._ours is None:
            self._ours = ctypes.CDLL(self.library)
            self._ours.penstock_version.restype = ctypes.c_char_p
            self._ours.penstock_cufile_session.restype = Status
            self._ours.penstock_counters.restype = Status
            self._ours.penstock_session_close.argtypes = [ctypes.c_void_p]
            self._ours.penstock_path_name.restype = ctypes.c_char_p
            self._ours.penstock_counters.argtypes = [
                ctypes.c_void_p,
                ctypes.POINTER(Counter),
                ctypes.c_uint32,
                ctypes.POINTER(ctypes.c_uint32),
            ]
        return self._ours

    def keep_open(self):
        """Holds the driver open, for clients that close it before the bytes could be counted."""
        return self.ours().cuFileDriverOpen()

    def moved_by_path(self):
        """Bytes that our library has read and written for this process, by path."""
        session = ctypes.c_void_p()
        if self.ours().penstock_cufile_session(ctypes.byref(session)).code != 0:
            return {}
        counters, count = (Counter * 64)(), ctypes.c_uint32()
        counters[0].struct_size = ctypes.sizeof(Counter)
        status = self.ours().penstock_counters(session, counters, 64, ctypes.byref(count))
        self.ours().penstock_session_close(session)
        moved = {}
        for each in counters[: min(64, count.value)] if status.code == 0 else []:
            if each.read_bytes + each.write_bytes:
                path = self.ours().penstock_path_name(each.path).decode()
                read, written = moved.get(path, (0, 0))
                moved[path] = read + each.read_bytes, written + each.write_bytes
        return moved

    def moved(self):
        """Bytes that our library has read and written for this process, and by which paths."""
        moved = self.moved_by_path()
        return sum(each[0] for each in moved.values()), sum(each[1] for each in moved.values()), set(moved)

    def check_moved(self, read, written):
        """The proof that the client's calls came to our library, whatever others are loaded."""
        read_bytes, write_bytes, paths = self.moved()
        where = ",".join(sorted(paths)) or "nothing"
        self.check(f"Penstock read {read_bytes} bytes (at least {read}) by {where}", read_bytes >= read)
        self.check(f"Penstock wrote {write_bytes} bytes (at least {written})", write_bytes >= written)

    def check_library(self):
        """Ours is loaded. Clients may load their wheel's beside it; which one is called, check_moved() tells."""
        mapped = mapped_libraries("libcufile.so")
        others = " ".join(sorted(mapped - {self.library}))
        self.check(f"ours is loaded: {self.library}", self.library in mapped)
        if others:
            print(f"       loaded beside it: {others}")
        version = ctypes.c_int(0)
        result = self.ours().cuFileGetVersion(ctypes.byref(version))
        self.check(f"cuFile {version.value}, Penstock {self.ours().penstock_version().decode()}", result == 0)


class Status(ctypes.Structure):
    """penstock_status."""

    _fields_ = [
        ("domain", ctypes.c_int16),
        ("driver", ctypes.c_int16),
        ("code", ctypes.c_int32),
        ("step", ctypes.c_char_p),
    ]


class Counter(ctypes.Structure):
    """penstock_counter."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("path", ctypes.c_int32),
        ("reason", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
        ("read_bytes", ctypes.c_uint64),
        ("read_operations", ctypes.c_uint64),
        ("write_bytes", ctypes.c_uint64),
        ("write_operations", ctypes.c_uint64),
    ]


def mapped_libraries(name):
    """The files of that name in this process's memory map."""
    found = set()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and os.path.basename(fields[5].strip()).startswith(name):
                found.add(os.path.realpath(fields[5].strip()))
    return found


def content(size, seed=1):
    return random.Random(seed).randbytes(size)


class HostMemory:
    """Plain memory, for machines without a GPU."""

    def __init__(self, size):
        self.size = size
        self._block = (ctypes.c_char * (size + 4096))()
        self.address = (ctypes.addressof(self._block) + 4095) & ~4095

    def put(self, data, offset=0):
        ctypes.memmove(self.address + offset, data, len(data))

    def get(self):
        return ctypes.string_at(self.address, self.size)


class GpuMemory:
    """Memory of GPU 0, from the driver, in the context that CUDA's runtime shares."""

    def __init__(self, size):
        self.size = size
        address = ctypes.c_uint64()
        cuda_call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.address = address.value

    def put(self, data, offset=0):
        cuda_call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address + offset), data, ctypes.c_size_t(len(data)))
        cuda_call("cuCtxSynchronize")  # From pageable memory the copy returns before its last bytes are there.

    def get(self):
        data = ctypes.create_string_buffer(self.size)
        cuda_call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(self.address), ctypes.c_size_t(self.size))
        return data.raw

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 3}


def cuda_call(name, *arguments):
    result = getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments)
    if result != 0:
        raise Failed(f"{name} gave CUDA error {result}")


def open_gpu(smoke):
    """Makes GPU 0's primary context current, or skips."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    try:
        cuda_call("cuInit", 0)
        cuda_call("cuDeviceGet", ctypes.byref(device), 0)
        cuda_call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        cuda_call("cuCtxSetCurrent", context)
    except (OSError, Failed) as error:
        smoke.skip(f"no GPU here ({error})")


def new_memory(smoke, size=MEMORY_SIZE, may_be_host=True):
    """GPU memory, or host memory where PENSTOCK_DEVICE=host asks for it."""
    if os.environ.get("PENSTOCK_DEVICE") == "host":
        if not may_be_host:
            smoke.skip("this client needs a GPU")
        return HostMemory(size)
    open_gpu(smoke)
    return GpuMemory(size)


def new_stream():
    stream = ctypes.c_void_p()
    cuda_call("cuStreamCreate", ctypes.byref(stream), 1)
    return stream.value


def wait_for(stream):
    cuda_call("cuStreamSynchronize", ctypes.c_void_p(stream))


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def check_reads(smoke, label, memory, data, read, ranges=tuple(RANGES) + (TAIL,)):
    """read(size, file_offset, memory_offset) -> bytes read, of a file that holds `data`. Returns their sum."""
    total = 0
    for size, file_offset, memory_offset in ranges:
        memory.put(bytes([SURROUNDINGS]) * memory.size)
        wanted = data[file_offset : file_offset + size]
        what = f"{label}: {size} bytes at {file_offset} into memory +{memory_offset}"
        try:
            count = read(size, file_offset, memory_offset)
        except Exception as error:
            smoke.check(f"{what}: {type(error).__name__}: {error}", False)
            continue
        expected = bytearray([SURROUNDINGS]) * memory.size
        expected[memory_offset : memory_offset + len(wanted)] = wanted
        smoke.check(f"{what}: {count}", count in (len(wanted), NOT_TOLD) and memory.get() == expected)
        total += len(wanted)
    return total


def check_writes(smoke, label, memory, path, write, ranges=tuple(RANGES)):
    """write(size, file_offset, memory_offset) -> bytes written, into the file at `path`. Returns their sum."""
    total = 0
    source = content(memory.size, seed=2)
    memory.put(source)
    for size, file_offset, memory_offset in ranges:
        before = read_file(path)
        expected = bytearray(before.ljust(file_offset + size, b"\0"))
        expected[file_offset : file_offset + size] = source[memory_offset : memory_offset + size]
        what = f"{label}: {size} bytes from memory +{memory_offset} to {file_offset}"
        try:
            count = write(size, file_offset, memory_offset)
        except Exception as error:
            smoke.check(f"{what}: {type(error).__name__}: {error}", False)
            continue
        smoke.check(f"{what}: {count}", count in (size, NOT_TOLD) and read_file(path) == bytes(expected))
        total += size
    return total


def prepend(variable, directory):
    """The value of a search path with `directory` before what it has now, the same however often it is asked for."""
    now = os.environ.get(variable, "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([directory, *filter(None, now)]))


def _start_on(library, environment):
    """The loader reads its variables once, so the process starts again with them set."""
    wanted = dict(environment, LD_PRELOAD=library)
    if all(os.environ.get(key) == value for key, value in wanted.items()):
        return
    if os.environ.get("PENSTOCK_SMOKE_STARTED") == "1":
        sys.exit("the variables for the loader did not survive a restart of Python")
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted, "PENSTOCK_SMOKE_STARTED": "1"})


def run(name, body, environment=None):
    """Starts on the library that the command line names, runs body(smoke), which sets smoke.version."""
    parser = argparse.ArgumentParser(description=f"Runs {name} on our libcufile.so.0.")
    parser.add_argument("--library", required=True, help="our libcufile.so.0")
    parser.add_argument("--directory", help="where the test files go (default: a temporary directory)")
    options = parser.parse_args()
    library = os.path.realpath(options.library)
    if not os.path.isfile(library):
        parser.error(f"{options.library} is no file: build the target cufile, or give the path of an installed one")
    _start_on(library, environment(library) if callable(environment) else environment or {})
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        smoke = Smoke(name, library, directory)
        try:
            body(smoke)
            smoke.check_library()
        except ImportError as error:
            smoke.skip(f"the client is not installed ({error})")
        except Exception as error:
            traceback.print_exc(limit=-3, file=sys.stdout)
            smoke.check(f"{type(error).__name__}: {error}", False)
    if smoke.failures or not smoke.checks:
        print(f"FAILED {name} {smoke.version}: {smoke.failures} of {smoke.checks} checks")
        sys.exit(1)
    print(f"OK {name} {smoke.version}: {smoke.checks} checks")
