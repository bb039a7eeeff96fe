# SPDX-License-Identifier: Apache-2.0

"""What type checkers are told agrees with what there is."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import penstock
from penstock import _native, records

PACKAGE = Path(penstock.__file__).resolve().parent


def test_the_package_is_typed():
    pytest.importorskip("mypy", reason="mypy is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    assert (PACKAGE / "py.typed").exists()
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir=/dev/null",
                           "-p", "penstock"], capture_output=True, text=True, cwd=PACKAGE.parent, env={})
    assert done.stdout + done.stderr == ""


def test_the_stubs_name_what_the_module_has():
    stubs = ast.parse((PACKAGE / "_native.pyi").read_text())
    declared = {node.name: node for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    there = {name for name in vars(_native) if not name.startswith("__")}
    assert set(declared) == there
    for name, node in declared.items():
        if not isinstance(node, ast.ClassDef):
            continue
        members = {each.name for each in node.body
                   if isinstance(each, ast.FunctionDef) and not each.name.startswith("__")}
        assert members == {each for each in vars(getattr(_native, name)) if not each.startswith("__")}, name


def test_records_have_the_keys_that_are_told(session, path):
    """And types, as far as a value tells its own."""
    with session.open(path) as file:
        declared = [(records.FileInfo, file.info()), *((records.Verdict, each) for each in file.explain())]
    declared += [(records.Engine, penstock.engine()), (records.SessionInfo, session.info()),
             (records.Check, penstock.check()), *((records.Device, each) for each in session.devices()),
             *((records.Setting, each) for each in penstock.settings()),
             *((records.Verdict, each) for each in session.outlook()),
             *((records.Counter, each) for each in session.counters())]
    for record, there in declared:
        types = get_type_hints(record)
        assert record.__required_keys__ <= there.keys() <= types.keys(), record
        for name, value in there.items():
            if isinstance(types[name], type):
                assert type(value) is types[name] or issubclass(types[name], dict), (record, name)


def test_everything_public_has_a_docstring():
    for name in penstock.__all__:
        thing = getattr(penstock, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing) and thing.__module__.startswith("penstock."):
            for member, value in vars(thing).items():
                if inspect.isfunction(value) and not member.startswith("_"):
                    # What says of itself what it is, needs no sentence more.
                    assert inspect.getdoc(value) or member in {"cancel", "close", "closed"}, f"{name}.{member}"
