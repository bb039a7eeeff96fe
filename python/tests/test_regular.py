# SPDX-License-Identifier: Apache-2.0

"""What is opened as a regular file: pipes, devices, folders and links in its place are told at once."""

import errno
import fcntl
import os
import resource
import signal
import socket
import stat
import threading

import pytest

from penstock import regular
from penstock.regular import UnfitFileError, open_regular, read_regular


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


KINDS = {
    "a folder": os.mkdir, "a pipe": os.mkfifo, "a socket": make_socket,
    "a character device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_told_at_once(tmp_path, monkeypatch, kind, flags):
    monkeypatch.chdir(tmp_path)  # Sockets have short names.
    KINDS[kind](path := (tmp_path / "x").relative_to(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UnfitFileError, match=f"^x: it is {kind}, where a regular file is wanted$") as refused:
        open_regular(path, flags)
    assert refused.value.filename == "x" and refused.value.errno == (errno.EISDIR if kind == "a folder" else
                                                                     errno.EINVAL)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_pipe_that_takes_the_name_between_look_and_opening_is_told(tmp_path, monkeypatch):
    path, check = tmp_path / "x", regular._check_regular
    path.write_bytes(b"x")

    def swap(facts, name):
        if stat.S_ISREG(facts.st_mode):
            path.unlink()
            os.mkfifo(path)
        check(facts, name)

    monkeypatch.setattr(regular, "_check_regular", swap)
    with pytest.raises(UnfitFileError, match="it is a pipe"):
        open_regular(path)


def test_a_link_is_followed_unless_that_is_not_wanted(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 100) == b"content"
    with pytest.raises(UnfitFileError, match="link: it is a link, which may lead elsewhere") as refused:
        open_regular(tmp_path / "link", follow=False)
    assert refused.value.errno == errno.ELOOP
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(UnfitFileError, match="^the journal: it is a link"):
            read_regular("link", 100, follow=False, dir_fd=root, shown="the journal")
        assert read_regular(b"file", 100, dir_fd=root) == b"content"
    finally:
        os.close(root)


def test_what_is_not_there_is_said_as_ever_and_can_be_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")
    fd = open_regular(tmp_path / "none", os.O_RDWR | os.O_CREAT | os.O_EXCL, mode=0o600)
    try:
        assert os.get_blocking(fd) and not os.get_inheritable(fd)
        assert os.fstat(fd).st_mode & 0o777 == 0o600
    finally:
        os.close(fd)
    with pytest.raises(FileExistsError):
        open_regular(tmp_path / "none", os.O_RDWR | os.O_CREAT | os.O_EXCL)


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_what_fits_is_read(tmp_path, size):
    (tmp_path / "x").write_bytes(bytes(size))
    assert read_regular(tmp_path / "x", 100) == bytes(size)


def test_what_is_too_large_is_not_read(tmp_path):
    for size in (101, 1 << 40):  # The latter is a hole, which would never end.
        with open(tmp_path / "x", "wb") as made:
            made.truncate(size)
        with pytest.raises(UnfitFileError, match="x: it has more than the 100 bytes that such a file") as found:
            read_regular(tmp_path / "x", 100)
        assert found.value.errno == errno.EFBIG


def test_what_says_that_it_is_empty_is_read_to_its_limit(tmp_path):
    said = read_regular("/proc/self/maps", 10 << 20)
    assert b"python" in said
    with pytest.raises(UnfitFileError, match="more than the 5 bytes"):
        read_regular("/proc/self/maps", 5)


def test_a_large_limit_takes_no_memory(tmp_path):
    (tmp_path / "x").write_bytes(b"x")
    before, (_, hard) = int(open("/proc/self/statm").read().split()[0]), resource.getrlimit(resource.RLIMIT_AS)
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (before * resource.getpagesize() + (256 << 20), hard))
    try:
        assert read_regular(tmp_path / "x", 1 << 40) == b"x"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)


def test_a_file_that_somebody_holds_a_lease_on_is_waited_for(tmp_path):
    """As file servers do; such a file cannot be opened without waiting."""
    path = tmp_path / "x"
    path.write_bytes(b"x")
    holder = os.open(path, os.O_RDWR)
    # The kernel asks for the lease by a signal. Any thread may take it, and only this one would run a handler.
    heard, hears = socket.socketpair()
    hears.setblocking(False)
    before, woken = signal.signal(signal.SIGIO, lambda *words: None), signal.set_wakeup_fd(hears.fileno())
    try:
        try:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            pytest.skip(f"no lease can be had here: {error}")
        found = []
        reader = threading.Thread(target=lambda: found.append(read_regular(path, 10)))
        reader.start()
        assert heard.recv(1) == bytes([signal.SIGIO])
        fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        reader.join()
        assert found == [b"x"]
    finally:
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGIO, before)
        heard.close()
        hears.close()
        os.close(holder)
