# SPDX-License-Identifier: Apache-2.0

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import penstock
from penstock import _native, launcher
from cufile_program import USES_CUFILE
from waiting import SECONDS_MAX


def test_without_a_gpu_host_memory_stands_in_and_says_so(session):
    assert all(device["stand_in"] for device in session.devices()) and session.devices()
    assert session.info()["device_kinds"] == "host"


def test_settings_have_names_and_tell_who_set_them(tmp_path):
    with penstock.Session(device="host", bounce_mib=32, paths=["bounce", "host"], policy="cpu") as session:
        assert session.setting("bounce_mib") == ("32", "call")
        assert session.setting("paths") == ("bounce,host", "call")
        assert session.setting("chunk_kib")[1] == "default"
    assert {"bounce_mib", "paths", "policy"} <= {each["name"] for each in penstock.settings()}
    for each in penstock.settings():
        assert each["meaning"] and each["takes"]


@pytest.mark.parametrize("settings", [{"no_such": 1}, {"bounce_mib": "much"}, {"bounce_mib": 0}, {"paths": "sideways"}])
def test_bad_settings_are_named_with_what_was_expected(settings):
    with pytest.raises(penstock.BadSettingError) as caught:
        penstock.Session(**settings)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name, meant", [("bounce", "bounce_mib"), ("bounce_mb", "bounce_mib"), ("chunk", "chunk_kib")])
def test_a_setting_that_was_meant_is_named(name, meant):
    with pytest.raises(penstock.BadSettingError, match=f"{name}: .* did you mean {meant}") as caught:
        penstock.Session(**{name: 64})
    assert caught.value.code == 21


def test_a_closed_session_says_so_and_so_do_its_files(path):
    session = penstock.Session(device="host")
    file = session.open(path)
    session.close()
    session.close()
    assert session.closed and "closed" in repr(session)
    for use in (session.info, session.devices, session.outlook, lambda: session.open(path), lambda: session.allocate(1),
                lambda: file.read(bytearray(1)), lambda: file.explain(), lambda: session.setting("paths")):
        with pytest.raises(penstock.ClosedError):
            use()
    file.close()


def test_memory_may_outlive_its_session():
    session = penstock.Session(device="host")
    memory = session.allocate(100)
    session.close()
    with pytest.raises(penstock.PenstockError):
        memory.upload(b"x")
    del memory


def test_bytes_of_device_memory_are_reached_within_its_range(session):
    memory = session.allocate(10)
    memory.upload(bytes(range(10)))
    memory.upload(b"ab", 8)
    assert memory.download(7) == b"\x07ab" and memory.download(1, 2) == b"\x01\x02" and len(memory) == 10
    for use in (lambda: memory.upload(b"abc", 8), lambda: memory.download(8, 3), lambda: memory.download(11)):
        with pytest.raises(ValueError, match="past the end"):
            use()


def test_counters_count_by_path(session, path):
    with session.open(path) as file:
        file.read(bytearray(1000))
        file.read(bytearray(24))
    counted = [each for each in session.counters() if each["path"] == "host"]
    assert sum(each["read_bytes"] for each in counted) == 1024
    assert sum(each["read_operations"] for each in counted) == 2


def test_a_path_that_must_serve_and_cannot_is_an_error(path):
    with penstock.Session(device="host", require="p2pdma") as session, session.open(path) as file:
        with pytest.raises(penstock.PathRefusedError) as caught:
            file.read(session.allocate(4096))
        assert caught.value.report.bytes == 0


def test_check_tells_the_engine_the_paths_and_the_settings():
    checked = penstock.check()
    soname = f"libpenstock.so.{penstock.__version__.rpartition('.')[0]}"
    assert Path(checked["engine"]["library"]).name.startswith(soname) and not checked["shared"]
    assert {verdict["path"] for verdict in checked["paths"]} >= {"p2pdma", "bounce", "host"}
    assert checked["settings"]["paths"]


def run_python(*arguments, **environment):
    command = [sys.executable, "-B", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX,
                          env={**os.environ, **environment})


SHARES = """
import json, penstock
shared = penstock.Session()
own = penstock.Session(shared=False, bounce_mib=8)
try:
    penstock.Session(bounce_mib=8)
except ValueError as error:
    refused = str(error)
print(json.dumps([penstock.engine(), shared.shared, own.shared, own.setting("bounce_mib"), refused]))
shared.close()
again = penstock.Session()
print(json.dumps([again.shared, again.info()["device_count"] >= 0]))
"""


def test_where_our_libcufile_is_mapped_its_session_is_shared():
    done = run_python("-c", SHARES, LD_PRELOAD=str(launcher.library()), PENSTOCK_DEVICE="host")
    assert done.returncode == 0, done.stderr
    engine, shared, own, setting, refused = json.loads(done.stdout.splitlines()[0])
    assert engine["is_cufile"] and engine["library"].endswith("libcufile.so.0")
    assert shared and not own and setting == ["8", "call"] and "shared=False" in refused
    assert json.loads(done.stdout.splitlines()[1]) == [True, True]
    maps = run_python("-c", "import penstock; penstock.Session(); print(open('/proc/self/maps').read())",
                      LD_PRELOAD=str(launcher.library()), PENSTOCK_DEVICE="host").stdout
    assert "libcufile.so.0" in maps and "libpenstock.so" not in maps  # One engine.


def test_a_shared_session_needs_our_libcufile():
    with pytest.raises(ValueError, match="python -m penstock run"):
        penstock.Session(shared=True)


def test_the_package_loads_nothing_before_it_is_used():
    done = run_python("-c", "import penstock; print(open('/proc/self/maps').read())")
    assert "_native" in done.stdout and "libpenstock.so" not in done.stdout and "libcuda" not in done.stdout


def test_check_and_explain_are_commands(path):
    done = run_python("-m", "penstock", "check", PENSTOCK_DEVICE="host")
    assert done.returncode == 0 and "stands in" in done.stdout and "p2pdma" in done.stdout
    checked = json.loads(run_python("-m", "penstock", "check", "--json", PENSTOCK_DEVICE="host").stdout)
    assert checked["devices"][0]["kind"] == "host"
    usable = {each["path"] for each in checked["paths"] if each["usable"]}
    assert not usable & {"pagecache", "nvfs", "vendor"}, "host memory stands in for a GPU"
    done = run_python("-m", "penstock", "explain", str(path), PENSTOCK_DEVICE="host")
    assert done.returncode == 0 and "bounce" in done.stdout and done.stderr == ""
    assert json.loads(run_python("-m", "penstock", "explain", "--json", str(path)).stdout)[0]["path"]
    done = run_python("-m", "penstock", "explain", "/nothing/there")
    assert (done.returncode, done.stdout) == (1, "") and "/nothing/there" in done.stderr
    assert run_python("-m", "penstock", "sideways").returncode == 2
    assert run_python("-m", "penstock", "run").returncode == 2


def test_whoever_reads_a_command_may_stop(path):
    command = f"{sys.executable} -m penstock check; echo $? >&2"
    done = subprocess.run(["bash", "-c", f"({command}) | head -c 1"], capture_output=True, text=True,
                          timeout=SECONDS_MAX)
    assert (done.returncode, done.stdout, done.stderr) == (0, "P", "0\n")


def test_run_is_the_command_of_that_name_with_the_library_of_the_package():
    done = run_python("-m", "penstock", "run", "--which", sys.executable, "-c", USES_CUFILE, PENSTOCK_DEVICE="host")
    assert done.returncode == 3
    assert "cuFile's calls go to Penstock's library" in done.stderr
    assert str(launcher.library().resolve()) in done.stderr
    done = run_python("-m", "penstock", "run", "--report", sys.executable, "-c", USES_CUFILE, PENSTOCK_DEVICE="host")
    assert done.returncode == 3 and "opened a session of" in done.stderr
    done = run_python("-m", "penstock", "run", "true")
    assert (done.returncode, done.stdout) == (0, "")
    assert f"{launcher.library().resolve()}, which is Penstock's, is in front" in done.stderr
    done = run_python("-m", "penstock", "run", "no-such-program")
    assert done.returncode == 127 and "no-such-program" in done.stderr


def test_run_without_the_command_says_where_to_get_it(monkeypatch):
    monkeypatch.setattr(metadata, "files", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="neither part of this package nor on PATH: `pip install .`"):
        launcher.tool()


def test_the_library_that_is_put_in_front_is_there():
    assert Path(launcher.library()).exists()


def test_checksums_of_any_memory_are_those_of_its_bytes():
    with penstock.Session(device="host") as session:
        content = bytes(range(256)) * 1000
        memory = session.allocate(len(content))
        memory.upload(content)
        assert session.crc32c(b"123456789") == [0xE3069283]
        assert session.crc32c(memory) == session.crc32c(content) and session.crc32c(b"") == []
        pieces = session.crc32c(memory, 100_000)
        assert len(pieces) == 3 and pieces[1] == session.crc32c(content[100_000:200_000])[0]
        with pytest.raises(ValueError, match="piece_bytes is -1: expected"):
            session.crc32c(content, -1)
        assert session.crc32c_vector([memory, b"", content], 100_000) == pieces + pieces
        assert session.crc32c_vector([]) == []
        pending = session.crc32c_begin([memory, b"", content], 100_000)
        assert pending.result() == pieces + pieces == pending.result()
        both = session.fingerprints_begin([memory, b"", content[:9]])
        assert both.result() == [_native.fingerprint(each) for each in (content, b"", content[:9])] == both.result()
        assert both.result()[0][0] == session.crc32c(content)[0] and both.result()[1] == (0, 0)
        unread = session.crc32c_begin([memory], 100_000)
        with pytest.raises(ValueError, match="piece_bytes is 0"):
            session._native.crc32c_vector([memory], 0, None)
    with pytest.raises(penstock.PenstockError, match="closed"):
        unread.result()
    with pytest.raises(penstock.PenstockError, match="closed"):
        unread.result()
