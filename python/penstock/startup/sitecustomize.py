# SPDX-License-Identifier: Apache-2.0

"""Runs as a Python starts, in the processes of `python -m penstock run --safetensors`: their first import of
safetensors puts Penstock under its calls. A sitecustomize that the machine has runs as well."""

import importlib.util
import os
import sys
import warnings
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
REPORT = "SAFETENSORS_BY_PENSTOCK"


def package() -> Any:
    """The package that this file is a part of, also for a Python that does not find it."""
    if importlib.util.find_spec("penstock") is None:
        folder = os.path.dirname(HERE)
        spec = importlib.util.spec_from_file_location("penstock", os.path.join(folder, "__init__.py"),
                                                      submodule_search_locations=[folder])
        assert spec is not None and spec.loader is not None
        sys.modules["penstock"] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules["penstock"])
        except BaseException:
            del sys.modules["penstock"]
            raise
    return importlib.import_module("penstock.weights")


def take_over() -> None:
    weights: Any = sys.modules.get("penstock.weights")
    if weights is not None and not hasattr(weights, "take_over"):
        weights._when_made = take_over  # It is being imported, and imports safetensors: it calls this at its end.
        return
    try:
        taken = package().take_over()
    except Exception as error:  # The program runs as it would without us.
        warnings.warn(f"penstock run: safetensors is not taken over in process {os.getpid()}: "
                      f"{type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)
        return
    if os.environ.get(REPORT) == "report":
        taken.report_at_exit()


class Finder:
    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "safetensors":
            return None
        others = [each for each in sys.meta_path if each is not cls and hasattr(each, "find_spec")]
        spec = next(filter(None, (each.find_spec(name, path, target) for each in others)), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def run_and_take_over(module: Any) -> None:
                run(module)
                if cls in sys.meta_path:  # Not before: a program may only look whether it is there.
                    sys.meta_path.remove(cls)
                take_over()

            loader.exec_module = run_and_take_over
        return spec


def run_the_next() -> None:
    spec = PathFinder.find_spec("sitecustomize", [folder for folder in sys.path if os.path.abspath(folder) != HERE])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


sys.meta_path.insert(0, Finder)
run_the_next()
