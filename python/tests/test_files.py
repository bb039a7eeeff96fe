# SPDX-License-Identifier: Apache-2.0

import array
import ctypes
import errno
import fcntl
import mmap
import os
import threading

import numpy as np
import pytest

import penstock

F_ADD_SEALS, F_SEAL_GROW = 1033, 4  # Since Python 3.13 in fcntl.


def test_a_read_fills_an_array_and_tells_its_path(session, path, content):
    buffer = np.zeros(len(content), np.uint8)
    with session.open(path) as file:
        report = file.read(buffer)
    assert buffer.tobytes() == content
    assert report.bytes == len(content)
    assert report.path == "host"
    assert report.bytes_by_path == {"host": len(content)}
    assert report.direct_bytes + report.cached_bytes == len(content)


def test_offsets_and_sizes_are_in_bytes_of_file_and_buffer(session, path, content):
    buffer = np.full(100, 7, np.uint8)
    with session.open(path) as file:
        report = file.read(buffer, 1000, size=20, buffer_offset=30)
    assert report.bytes == 20
    assert buffer[30:50].tobytes() == content[1000:1020]
    assert set(buffer[:30]) == {7} and set(buffer[50:]) == {7}


def test_a_read_that_meets_the_end_moves_fewer_bytes(session, path, content):
    buffer = bytearray(b"x" * 4096)
    with session.open(path) as file:
        report = file.read(buffer, len(content) - 10)
    assert report.bytes == 10
    assert bytes(buffer) == content[-10:] + b"x" * 4086


@pytest.mark.parametrize("make", [
    lambda size: bytearray(size),
    lambda size: memoryview(bytearray(size)),
    lambda size: array.array("Q", bytes(size)),
    lambda size: mmap.mmap(-1, size),
    lambda size: np.zeros(size // 8, np.complex64),
    lambda size: np.zeros((2, size // 2), np.int8),
    lambda size: (ctypes.c_char * size)(),
])
def test_whatever_has_the_buffer_protocol_is_a_buffer(session, path, content, make):
    buffer = make(4096)
    with session.open(path) as file:
        assert file.read(buffer, 64).bytes == 4096
    assert bytes(memoryview(buffer).cast("B")) == content[64:64 + 4096]


def test_an_address_is_a_buffer_where_the_caller_answers_for_it(session, path, content):
    owner = bytearray(64)
    address = ctypes.addressof((ctypes.c_char * 64).from_buffer(owner))
    with session.open(path) as file:
        assert file.read(penstock.Pointer(address, 64, owner)).bytes == 64
    assert bytes(owner) == content[:64]


def test_device_memory_is_read_into_and_written_from(session, path, content, tmp_path):
    memory = session.allocate(len(content))
    with session.open(path) as file:
        report = file.read(memory)
    assert report.path != "host" and report.bytes == len(content)
    assert memory.download() == content
    memory.upload(b"new bytes", 5)
    with session.create(tmp_path / "copy") as made:
        assert made.write(memory, size=100).bytes == 100
    assert (tmp_path / "copy").read_bytes() == content[:5] + b"new bytes" + content[14:100]


def test_a_write_goes_where_it_is_told(session, tmp_path):
    with session.open(tmp_path / "new", "w") as file:
        file.write(np.arange(10, dtype=np.uint8), 3)
        file.sync()
    assert (tmp_path / "new").read_bytes() == bytes(3) + bytes(range(10))


def test_one_range_goes_to_several_buffers_and_comes_from_them(session, path, content, tmp_path):
    pieces = [bytearray(10), np.zeros(4096, np.uint8), bytearray(1)]
    with session.open(path) as file:
        assert file.readv(pieces, 5).bytes == 4107
    assert b"".join(bytes(piece) for piece in pieces) == content[5:5 + 4107]
    with session.open(tmp_path / "new", "x") as file:
        assert file.writev(pieces).bytes == 4107
    assert (tmp_path / "new").read_bytes() == content[5:5 + 4107]


def test_nothing_is_written_to_what_is_read_only(session, path):
    frozen = np.zeros(10, np.uint8)
    frozen.flags.writeable = False
    with session.open(path) as file:
        for buffer in (b"bytes", frozen, memoryview(b"bytes")):
            with pytest.raises(ValueError, match="read-only"):
                file.read(buffer)


def test_arrays_of_objects_are_no_bytes(session, path):
    with session.open(path) as file, pytest.raises(TypeError, match="Python objects"):
        file.read(np.empty(4, object))


def test_memory_of_a_closed_session_is_not_used(session, path):
    other = penstock.Session(device="host")
    stale = other.allocate(4096)
    other.close()
    with session.open(path) as file:
        with pytest.raises(penstock.ClosedError):
            file.read(stale)
        with pytest.raises(penstock.ClosedError):
            file.read_async(stale, timeout=1)


def test_memory_with_gaps_is_refused(session, path):
    with session.open(path) as file:
        with pytest.raises(ValueError, match="contiguous"):
            file.read(np.zeros((4, 4), np.uint8)[:, ::2])
        with pytest.raises(ValueError, match="contiguous"):
            file.read(np.asfortranarray(np.zeros((4, 4), np.uint8)))


def test_what_is_no_memory_is_refused_by_name(session, path):
    with session.open(path) as file:
        for thing in (7, None, "text", object()):
            with pytest.raises(TypeError, match=f"{type(thing).__name__} is no memory"):
                file.read(thing)


def test_a_tensor_of_a_torch_that_is_too_old_is_refused_with_what_it_takes(path):
    class Tensor:  # As of torch 1.13, which Debian 12 has.
        is_cuda = False

        def is_contiguous(self):
            return True

        def data_ptr(self):
            return 4096

        def is_conj(self):
            return False

        is_neg = is_conj

    with penstock.open(path) as file, pytest.raises(TypeError, match="has no nbytes, as those of torch 2.1"):
        file.read(Tensor())


def test_no_buffers_at_all_are_refused(session, path):
    with session.open(path) as file:
        for call in (file.readv, file.readv_async):
            with pytest.raises(ValueError, match="no buffers"):
                call([])


@pytest.mark.parametrize("range_, sentence", [
    ({"size": 11}, "run past the end"), ({"buffer_offset": 11}, "behind the end"), ({"buffer_offset": -1}, "below 0"),
    ({"size": -2}, "below 0"), ({"size": 6, "buffer_offset": 5}, "run past the end"),
])
def test_ranges_outside_of_the_buffer_are_refused(session, path, range_, sentence):
    with session.open(path) as file, pytest.raises(ValueError, match=sentence):
        file.read(bytearray(10), **range_)


def test_failures_are_os_errors_that_say_step_cause_and_remedy(session, path):
    with session.open(path) as file:
        with pytest.raises(penstock.PenstockError) as caught:
            file.read(bytearray(10), -1)
        assert isinstance(caught.value, OSError) and caught.value.domain == "penstock"
        assert caught.value.step and "offset" in str(caught.value)
        with pytest.raises(penstock.PenstockError) as caught:
            file.write(b"x")
        assert caught.value.code == 8
    with pytest.raises(penstock.UnsupportedError):
        session.open(os.open("/", os.O_RDONLY))
    with pytest.raises(FileNotFoundError):
        session.open("/nothing/there")
    with pytest.raises(ValueError, match="mode 'a'"):
        session.open(path, "a")


@pytest.mark.parametrize("mode", ["r", "r+", "w"])
@pytest.mark.parametrize("kind, make_it", [
    ("a pipe", os.mkfifo), ("a folder", os.mkdir), ("a character device", lambda name: os.symlink("/dev/null", name))])
def test_what_is_no_file_is_told_at_once_with_its_name(session, tmp_path, kind, make_it, mode):
    make_it(tmp_path / "odd")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(penstock.UnsupportedError, match=f"odd: could not open the file: it is {kind}, .*block device"):
        session.open(tmp_path / "odd", mode)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_fails_is_told_with_the_name_of_the_file(session, path, tmp_path):
    with session.open(path) as file:
        for call in (lambda: file.read(bytearray(10), -1), lambda: file.write(b"x"), lambda: file.writev([b"x"]),
                     lambda: file.write_async(b"x").result(), lambda: file.stripe_info()):
            with pytest.raises(penstock.PenstockError, match=f"^{path}: could not ") as caught:
                call()
            assert caught.value.filename == str(path)
    with pytest.raises(penstock.ClosedError, match=f"^{path}: could not use the file: it is closed; open it anew$"):
        file.read(bytearray(1))
    assert repr(file) == f"<penstock.File '{path}': closed>"
    with pytest.raises(penstock.PenstockError, match=f"nodir/x: could not open the folder '{tmp_path}/nodir': No"):
        penstock.write(tmp_path / "nodir" / "x", b"x")
    with pytest.raises(penstock.PenstockError, match=f"^{path}: .*File exists.*replace=True"):
        penstock.write(path, b"x")


def test_a_name_of_any_bytes_is_told(session, tmp_path):
    name = os.path.join(os.fsencode(tmp_path), b"\xff\n")
    with session.create(name) as made:
        made.write(b"x")
    with session.open(name) as file, pytest.raises(penstock.PenstockError, match="could not"):
        file.write(b"x")


def test_what_the_system_refuses_has_its_errno_and_a_report(session):
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_GROW)
    with session.open(fd) as sealed, pytest.raises(penstock.PenstockError) as caught:
        sealed.write(b"more")
    os.close(fd)
    assert caught.value.errno == errno.EPERM and caught.value.domain == "os"
    assert caught.value.report.bytes == 0


def test_a_closed_file_says_so(session, path):
    file = session.open(path)
    file.close()
    file.close()
    assert file.closed and "closed" in repr(file)
    with pytest.raises(penstock.ClosedError):
        file.read(bytearray(1))


def test_a_descriptor_may_be_closed_by_its_owner(session, path, content):
    fd = os.open(path, os.O_RDONLY)
    file = session.open(fd)
    os.close(fd)
    buffer = bytearray(16)
    assert file.read(buffer).bytes == 16 and bytes(buffer) == content[:16]


def test_a_new_file_appears_whole_or_not_at_all(session, tmp_path):
    name = tmp_path / "checkpoint"
    with pytest.raises(KeyError), session.create(name) as made:
        made.write(b"half")
        raise KeyError("the trainer failed")
    assert os.listdir(tmp_path) == []
    with session.create(name) as made:
        made.write(b"whole")
        assert not name.exists()
    assert name.read_bytes() == b"whole"
    with pytest.raises(penstock.PenstockError) as caught, session.create(name) as made:
        made.write(b"again")
    assert caught.value.errno == errno.EEXIST and name.read_bytes() == b"whole"
    with session.create(name, replace=True) as made:
        made.write(b"again")
    assert name.read_bytes() == b"again"


def test_explain_moves_nothing_and_names_every_path(session, path):
    with session.open(path) as file:
        verdicts = file.explain()
        assert {"p2pdma", "pagecache", "bounce", "host"} <= {verdict["path"] for verdict in verdicts}
        assert any(verdict["usable"] for verdict in verdicts)
        for verdict in verdicts:
            assert verdict["usable"] or (verdict["reason"] and verdict["sentence"])
        assert file.explain(bytearray(10))[0]["usable"] in (True, False)
    assert session.counters() == []


def test_threads_may_read_while_another_closes_the_file(session, path, content):
    file = session.open(path)
    wrong = []

    def read():
        buffer = bytearray(4096)
        try:
            for _ in range(300):
                file.read(buffer)
                if bytes(buffer) != content[:4096]:
                    wrong.append("bytes")
        except penstock.ClosedError:
            pass
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    file.close()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_default_session_serves_the_short_calls(path, content, tmp_path):
    buffer = np.zeros(len(content), np.uint8)
    assert penstock.read(path, buffer).bytes == len(content)
    assert penstock.write(tmp_path / "copy", buffer).bytes == len(content)
    assert (tmp_path / "copy").read_bytes() == content
    assert penstock.explain(path)[0]["path"]


def test_a_mapping_sees_what_a_direct_write_wrote_and_a_direct_read_what_was_written_to_a_mapping(path):
    """The advice that files written by GPUDirect Storage must not be mapped, or read through the page cache, does not
    hold here: the kernel drops the pages of what is written around them, and writes dirty ones back before a read."""
    new, memory = bytes(range(256)) * 4096, mmap.mmap(-1, 1 << 20)  # Aligned, as drives ask for it.
    with penstock.Session(device="host", direct_io="always") as session, session.open(path, "r+") as file, \
            open(path, "r+b") as plain, mmap.mmap(plain.fileno(), 0) as mapped:
        assert hash(bytes(mapped)) != hash(new)  # All pages are there, and mapped.
        memory[:] = new
        report = file.write(memory)
        if report.direct_bytes == 0:
            pytest.skip("this file system has no direct I/O")
        assert mapped[:] == new and plain.read() == new
        mapped[4096:8192] = b"\x07" * 4096
        assert file.read(memory).direct_bytes > 0
        assert memory[:] == new[:4096] + b"\x07" * 4096 + new[8192:]
