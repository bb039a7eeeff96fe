# SPDX-License-Identifier: Apache-2.0

"""What the loaders for vLLM and SGLang share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import penstock
from penstock.weights import Weights

if TYPE_CHECKING:
    import torch


def client(module: str, name: str) -> Any:
    """A module of a client, which may not be there."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"this loader is for {name}, whose module {module} could not be imported ({error}): "
                          f"install {name}, of a release that has it") from error


def check_fits(base: Any, parameters: str, name: str) -> None:
    """Raises where the client's own loader, on which ours stands, is not the one that ours was written for."""
    there = " ".join(list(inspect.signature(base._prepare_weights).parameters)[1:])
    if there != parameters:
        raise RuntimeError(f"{name} {version(name.lower())} finds weights otherwise than load format 'penstock' was "
                           f"written for: expected _prepare_weights to take {parameters}, it takes {there}")


TOGETHER = "together"  # Our own key: whether tensor-parallel ranks read a share each, and exchange the shares.


def settings_of(extra: Any, others: Sequence[str] = ()) -> tuple[dict[str, Any], bool, dict[str, Any]]:
    """model_loader_extra_config, in Penstock's settings, whether ranks read together, and what is the client's own."""
    if not isinstance(extra, Mapping):
        raise ValueError(f"model_loader_extra_config is {extra!r}: expected a JSON object")
    names = [each["name"] for each in penstock.settings()]
    known = [TOGETHER, *others, *names]
    unknown = [key for key in extra if key not in known]
    if unknown:
        raise ValueError(f"model_loader_extra_config has {', '.join(map(repr, unknown))}, which load format 'penstock' "
                         f"does not know: expected {', '.join(known)}")
    together = extra.get(TOGETHER, False)
    if not isinstance(together, bool):
        raise ValueError(f"model_loader_extra_config has {TOGETHER!r}: {together!r}: expected true or false")
    return ({key: value for key, value in extra.items() if key in names}, together,
            {key: value for key, value in extra.items() if key in others})


def device() -> torch.device:
    """Where tensors are read to: the GPU of this process, if it is at work on one. The client copies from there."""
    import torch

    if torch.cuda.is_initialized() and torch.version.cuda is not None:  # type: ignore[no-untyped-call]
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def stream(files: Sequence[str], is_wanted: Callable[[str], bool], settings: Mapping[str, Any],
           tell: Callable[[str], None], group: Any = None) -> Iterator[tuple[str, torch.Tensor]]:
    """The wanted tensors of the files. `tell` gets a sentence at the end, with the paths that the bytes took.

    group: the ranks that all want these tensors, where they read them together.
    """
    weights = Weights(files)
    weights.tensors = {name: tensor for name, tensor in weights.tensors.items() if is_wanted(name)}
    # A session of its own, so that its pinned memory goes when all is loaded.
    with penstock.Session(**settings) as session:
        plan = weights.plan(device=device(), session=session, group=group)
        yield from plan
    done = plan.progress
    paths = ", ".join(f"{moved} bytes by path {path}" for path, moved in done.bytes_by_path.items())
    share = "" if group is None else "its share of "
    tell(f"Penstock read {share}{len(plan)} tensors of {len(files)} files to {plan.device} in {done.seconds:.2f} s "
         f"({done.gb_per_s:.2f} GB/s, loading into the model included): {paths or 'no bytes'}")
