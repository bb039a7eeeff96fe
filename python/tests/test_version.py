# SPDX-License-Identifier: Apache-2.0

"""The version stands in CMakeLists.txt, and everything that tells one tells that one."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def version():
    return re.search(r"^project\(penstock VERSION ([0-9.]+) ", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


def test_the_package_and_its_library_tell_the_version_of_the_build(version):
    assert penstock.__version__ == version
    assert penstock.engine()["version"] == version


def test_pip_takes_the_version_from_there(version):
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rule = said["tool"]["scikit-build"]["metadata"]["version"]

    assert said["project"]["dynamic"] == ["version"] and "version" not in said["project"]
    assert re.findall(rule["regex"], (ROOT / rule["input"]).read_text()) == [version]


def test_what_pip_has_installed_is_that_version(version):
    try:
        installed = metadata.version("penstock")
    except metadata.PackageNotFoundError:
        pytest.skip("pip has not installed the package here; the test python_wheel asks one that it has")
    assert installed == version
