# SPDX-License-Identifier: Apache-2.0

"""`python -m penstock check --deepspeed` on files and folders of this machine, and the last release's `penstock check
--deepspeed`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import deepspeed, launcher
from penstock.__main__ import main
from waiting import SECONDS_MAX


@pytest.fixture(autouse=True)
def by_the_tables(monkeypatch, tmp_path):
    """In a folder of its own; DeepSpeed, where it is installed, has its tests in test_deepspeed.py."""
    monkeypatch.setattr(deepspeed.judge, "refusals", lambda root: None)
    monkeypatch.chdir(tmp_path)


def findings_on_folder(capsys, folder):
    """Of the parameter swap to a folder, with GPUDirect Storage."""
    offload = {"device": "nvme", "max_in_cpu": 0, "nvme_path": str(folder)}
    Path("ds_config.json").write_text(json.dumps({"zero_optimization": {"stage": 3, "offload_param": offload},
                                                  "aio": {"use_gds": True}}))
    code = main(["check", "--json", "--deepspeed", "ds_config.json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (report["errors"] != 0) and report["deepspeed"] == "0.19.8"
    return {each["code"]: each for each in report["findings"]}


@pytest.mark.parametrize("has_tool", [True, False])
def test_a_folder_on_a_drive_is_told_its_room_and_what_penstock_would_do(capsys, tmp_path, monkeypatch, has_tool):
    if has_tool and shutil.which("penstock") is None:
        pytest.skip("the command penstock is not on PATH")
    monkeypatch.setattr(launcher, "has_tool", lambda: has_tool)
    found = findings_on_folder(capsys, tmp_path)
    assert found["free_room"]["severity"] == "note"
    outlook = found["outlook"]["cause"]
    assert outlook.startswith("by Penstock's libcufile: not p2pdma: ") and "bounce, by copies" in outlook
    assert "p2pdma serves" not in outlook  # Nothing has tested a direct path here, so none may be promised.


def test_a_folder_that_is_missing_is_a_note_and_a_file_an_error(capsys, tmp_path):
    assert findings_on_folder(capsys, tmp_path / "none/of/these")["folder_missing"]["severity"] == "note"
    (tmp_path / "file").write_bytes(b"x")
    assert findings_on_folder(capsys, tmp_path / "file")["no_folder"]["severity"] == "error"
    assert findings_on_folder(capsys, tmp_path / "file/below")["no_folder"]["severity"] == "error"
    assert findings_on_folder(capsys, "swap")["relative_path"]["severity"] == "warning"


def test_a_folder_that_may_not_be_written_to_is_an_error(capsys, monkeypatch):
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: str(path) != "/" and access(path, mode, **more))
    found = findings_on_folder(capsys, "/swap")
    assert found["folder_not_writable"]["cause"] == "/ may not be written to: Permission denied"


@pytest.mark.parametrize(("kind", "direct", "code"), [("tmpfs", "no", "no_direct_io"), ("nfs4", "yes", "network"),
                                                      ("fuse.sshfs", "yes", "network"), ("overlay", "yes", "overlay"),
                                                      ("ext4", "yes", None)])
def test_a_file_system_that_does_not_suit_is_warned_of(capsys, tmp_path, monkeypatch, kind, direct, code):
    path = {"path": "bounce", "usable": True, "sentence": "", "remedy": ""}
    place = {"mount_point": str(tmp_path), "type": kind, "direct_io": {"state": direct, "because": "it is memory"},
             "outlook": [path]}
    monkeypatch.setattr(launcher, "checked_machine", lambda: {"file_systems": [place]})
    found = findings_on_folder(capsys, tmp_path)
    warned = {"no_direct_io", "network", "overlay"} & set(found)
    assert warned == ({code} if code else set())
    assert not code or found[code]["cause"].startswith(f"{tmp_path} is {kind}")


def test_without_a_path_that_serves_deepspeed_ends_and_that_is_an_error(capsys, tmp_path, monkeypatch):
    path = {"path": "p2pdma", "usable": False, "sentence": "it is off", "remedy": "Switch it on."}
    monkeypatch.setattr(launcher, "checked_machine", dict)
    monkeypatch.setattr(deepspeed.places, "_outlook_of_session", lambda: [path])
    found = findings_on_folder(capsys, tmp_path)["outlook"]
    assert (found["severity"], found["remedy"]) == ("error", "Switch it on.")
    assert found["cause"].endswith("not p2pdma: it is off; nor bounce: cuFile fails, and DeepSpeed ends the process")


def test_what_cannot_be_read_is_a_sentence_and_exit_code_one(capsys):
    assert main(["check", "--deepspeed", "ds_config.json"]) == 1
    assert "ds_config.json: could not open the file: No such file" in capsys.readouterr().err
    Path("ds_config.json").write_text('{\n  "a": ]}')
    assert main(["check", "--deepspeed", "ds_config.json"]) == 1
    assert "ds_config.json:2:8: is not JSON here" in capsys.readouterr().err
    assert main(["check", "--deepspeed", "ds_config.json", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["code"] == "unreadable"


def test_names_with_control_characters_reach_no_terminal(capsys):
    Path("ds_config.json").write_text('{"aio": {"x\\u001b[2Jy": 1, "\\u202e": "\\u0007"}}')
    assert main(["check", "--deepspeed", "ds_config.json"]) == 0
    assert not set("\x1b\a\u202e") & set(capsys.readouterr().out)


def test_a_captured_machine_is_another_question(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "--deepspeed", "ds_config.json", "--root", "."])
    assert ended.value.code == 2 and "not allowed with" in capsys.readouterr().err


# ---- The old name.


def run_tool(*words, **environment):
    if (tool := shutil.which("penstock")) is None:
        pytest.skip("the command penstock is not on PATH")
    return subprocess.run([tool, "check", *words], capture_output=True, text=True, timeout=SECONDS_MAX,
                          env={**os.environ, **environment})


def test_the_old_name_says_the_new_one_and_answers_as_it_did(tmp_path):
    (tmp_path / "penstock").mkdir()  # Not the package, whatever lies in the working directory.
    Path("ds_config.json").write_text('{"aio": {"queue_depth": 0}}')
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for more in ([], ["--json"]):
        new = subprocess.run([sys.executable, "-m", "penstock", "check", "--deepspeed", "ds_config.json", *more],
                             capture_output=True, text=True, timeout=SECONDS_MAX)
        old = run_tool("--deepspeed", "ds_config.json", *more, PATH=path)
        assert (old.returncode, old.stdout) == (new.returncode, new.stdout) and new.returncode == 1, old.stderr
        assert old.stderr.startswith("penstock: 'penstock check --deepspeed' is now 'python -m penstock check")
    assert run_tool("--deepspeed", "ds_config.json", "--root", ".").returncode == 2


def test_the_old_name_says_what_is_needed_where_the_package_is_not():
    done = run_tool("--deepspeed", "ds_config.json", "--json", PATH="/nowhere")
    assert done.returncode == 77 and "has the package penstock" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 77
