# SPDX-License-Identifier: Apache-2.0

"""Order on CUDA streams, over a driver without a GPU (test/fakes/fake_cuda) whose copies land only when somebody waits
for them: whoever does not wait, sees it."""

import ctypes

import pytest

import penstock

SOON = 30


class Driver:
    """What a program does with CUDA by itself."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.context = context

    def call(self, name, *arguments):
        assert getattr(self.cuda, name)(*arguments) == 0, name

    def stream(self):
        made = ctypes.c_void_p()
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuStreamCreate", ctypes.byref(made), 1)
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        return made.value

    def on_stream(self, name, stream, *arguments):
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call(name, *arguments, ctypes.c_void_p(stream))
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class CudaArray:
    """As other libraries' arrays are: it says where it lies, and after which stream its bytes count."""

    def __init__(self, memory, stream):
        self.memory = memory
        self.__cuda_array_interface__ = {
            "data": (memory.address, False), "shape": (memory.nbytes,), "typestr": "|u1", "version": 3,
            "stream": stream,
        }


@pytest.fixture
def driver():
    try:
        ctypes.CDLL("libcuda.so.1").fake_cuda_scatters
    except (OSError, AttributeError):
        pytest.skip("libcuda.so.1 is not the one of test/fakes: run these tests by ctest")
    return Driver()


@pytest.fixture
def gpu(driver):
    with penstock.Session(device="cuda") as session:
        yield session


@pytest.fixture
def target(tmp_path):
    return tmp_path / "target"


def host(content):
    return ctypes.create_string_buffer(content, len(content))


def test_a_write_comes_after_what_is_on_the_stream(gpu, driver, target):
    memory, stream, source = gpu.allocate(4096), driver.stream(), host(b"n" * 4096)
    memory.upload(b"o" * 4096)
    driver.on_stream("cuMemcpyHtoDAsync_v2", stream, ctypes.c_void_p(memory.address), source, ctypes.c_size_t(4096))
    with gpu.open(target, "w") as file:
        file.write(CudaArray(memory, stream))
    assert target.read_bytes() == b"n" * 4096


def test_a_read_comes_after_what_is_on_the_stream(gpu, driver, path, content):
    memory, stream, kept = gpu.allocate(4096), driver.stream(), host(b"." * 4096)
    memory.upload(b"o" * 4096)
    driver.on_stream("cuMemcpyDtoHAsync_v2", stream, kept, ctypes.c_void_p(memory.address), ctypes.c_size_t(4096))
    with gpu.open(path) as file:
        file.read(memory, stream=stream)
    assert kept.raw == b"o" * 4096
    assert memory.download() == content[:4096]


def test_without_an_order_nobody_waits(gpu, driver, target):
    """The world is one in which the tests above can fail."""
    memory, stream, source = gpu.allocate(4096), driver.stream(), host(b"n" * 4096)
    memory.upload(b"o" * 4096)
    driver.on_stream("cuMemcpyHtoDAsync_v2", stream, ctypes.c_void_p(memory.address), source, ctypes.c_size_t(4096))
    with gpu.open(target, "w") as file:
        file.write(CudaArray(memory, stream), stream=-1)
    assert target.read_bytes() == b"o" * 4096


def test_a_stream_may_be_any_object_that_has_one(gpu, driver, target):
    class Torchs:
        cuda_stream = driver.stream()

    class Protocols:
        def __cuda_stream__(self):
            return (0, Torchs.cuda_stream)

    memory = gpu.allocate(4096)
    for stream, letter in ((Torchs(), b"a"), (Protocols(), b"b"), (Torchs.cuda_stream, b"c")):
        source = host(letter * 4096)
        driver.on_stream("cuMemcpyHtoDAsync_v2", Torchs.cuda_stream, ctypes.c_void_p(memory.address), source,
                         ctypes.c_size_t(4096))
        with gpu.open(target, "w") as file:
            file.write(memory, stream=stream)
        assert target.read_bytes() == letter * 4096
    with gpu.open(target) as file, pytest.raises(TypeError, match="neither None, -1, a number"):
        file.read(memory, stream="first")


def test_an_asynchronous_write_goes_in_the_order_of_the_stream(gpu, driver, target):
    memory, stream, source = gpu.allocate(4096), driver.stream(), host(b"n" * 4096)
    memory.upload(b"o" * 4096)
    driver.on_stream("cuMemcpyHtoDAsync_v2", stream, ctypes.c_void_p(memory.address), source, ctypes.c_size_t(4096))
    with gpu.open(target, "w") as file:
        future = file.write_async(CudaArray(memory, stream))
        driver.on_stream("cuMemsetD8Async", stream, ctypes.c_void_p(memory.address), ctypes.c_ubyte(0),
                         ctypes.c_size_t(4096))
        driver.on_stream("cuStreamSynchronize", stream)
        assert future.result(SOON).bytes == 4096
    assert target.read_bytes() == b"n" * 4096


def test_what_is_put_on_the_stream_after_an_asynchronous_read_comes_after_it(gpu, driver, path, content):
    memory, stream, seen = gpu.allocate(4096), driver.stream(), host(b"." * 4096)
    with gpu.open(path) as file:
        future = file.read_async(memory, 64, stream=stream)
        driver.on_stream("cuMemcpyDtoHAsync_v2", stream, seen, ctypes.c_void_p(memory.address), ctypes.c_size_t(4096))
        driver.on_stream("cuStreamSynchronize", stream)
        assert seen.raw == content[64:64 + 4096]
        assert future.result(SOON).bytes == 4096


def test_asynchronous_requests_without_an_order_go_at_once(gpu, path, content):
    memory = gpu.allocate(len(content))
    with gpu.open(path) as file:
        futures = [file.read_async(memory, at, size=4096, buffer_offset=at, stream=-1)
                   for at in range(0, len(content), 4096)]
        assert sum(future.result(SOON).bytes for future in futures) == len(content)
    assert memory.download() == content


def test_what_a_stream_cannot_give_is_refused(gpu, driver, path):
    memory, stream = gpu.allocate(64), driver.stream()
    with gpu.open(path) as file:
        with pytest.raises(ValueError, match="no deadline"):
            file.read_async(memory, stream=stream, timeout=1)
        with pytest.raises(ValueError, match="one piece"):
            file.readv_async([memory, memory], stream=stream)


def test_memory_with_gaps_is_refused(gpu, path):
    memory = gpu.allocate(64)
    array = CudaArray(memory, None)
    array.__cuda_array_interface__ |= {"shape": (4, 8), "strides": (16, 1)}
    with gpu.open(path) as file, pytest.raises(ValueError, match="contiguous"):
        file.read(array)
    array.__cuda_array_interface__ |= {"shape": (4, 16), "strides": (16, 1)}
    with gpu.open(path) as file:
        assert file.read(array).bytes == 64
    array.__cuda_array_interface__ |= {"data": (memory.address, True)}
    with gpu.open(path) as file, pytest.raises(ValueError, match="read-only"):
        file.read(array)


def test_a_deadline_works_for_device_memory_too(gpu, path, content):
    memory = gpu.allocate(4096)
    with gpu.open(path) as file:
        assert file.read_async(memory, 5, stream=-1, timeout=SOON).result(SOON).bytes == 4096
    assert memory.download() == content[5:5 + 4096]

