# SPDX-License-Identifier: Apache-2.0

"""Shared by the loaders, KV tiers and saves for other projects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import penstock
from penstock import kv
from penstock.threads import Future, wait
from penstock.weights import Weights

if TYPE_CHECKING:
    import torch


def client(module: str, name: str) -> Any:
    """Imports a module of a client, which may be missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"this module is for {name}, whose module {module} could not be imported ({error}): "
                          f"install {name}, of a release that has it") from error


def one_device(map_location: Any) -> Any:
    """The device of torch.load's map_location; that of the CPU where none is said. Raises ValueError for a function or
    a dict."""
    if callable(map_location) or isinstance(map_location, dict):
        raise ValueError("map_location: expected one device, as 'cpu' or 'cuda:1': all tensors go there")
    return map_location or "cpu"


def check_fits(base: Any, parameters: str, name: str) -> None:
    """Raises if the client's own loader, on which ours is based, differs from the supported one."""
    there = " ".join(list(inspect.signature(base._prepare_weights).parameters)[1:])
    if there != parameters:
        raise RuntimeError(f"{name} {version(name.lower())} finds weights otherwise than load format 'penstock' was "
                           f"written for: expected _prepare_weights to take {parameters}, it takes {there}")


def check_interface(host: str, what: str, base: Any, asked: set[str], method: Any = None, given: Sequence[str] = (),
                    also: str = "") -> None:
    """Raises if the abstract methods of a client's base class, or the parameters of its `method`, differ from those
    that ours was written for, or if `also` tells another difference."""
    there = set(base.__abstractmethods__)
    takes = list(inspect.signature(method).parameters)[1:] if method else []
    if there == asked and takes == list(given) and not also:
        return
    expected, found = (f"{sorted(names)}" + (f" and {list(parameters)}" if method else "")
                       for names, parameters in ((asked, given), (there, takes)))
    raise RuntimeError(f"{host} {version(host.lower())} has other {what} was written for: expected {expected}, it has "
                       f"{found}{also}")


TOGETHER = "together"  # Our own key: tensor-parallel ranks each read a share, and exchange the shares.


def settings_of(extra: Any, others: Sequence[str] = ()) -> tuple[dict[str, Any], bool, dict[str, Any]]:
    """Splits model_loader_extra_config into Penstock's settings, whether ranks read together, and the client's own
    keys."""
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
    """The device to read tensors to: the GPU of this process, if it uses one. The client copies from there."""
    import torch

    if torch.cuda.is_initialized() and torch.version.cuda is not None:  # type: ignore[no-untyped-call]
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


_KV_HEADER_BYTES = 4096
_KV_EXTENT_BYTES = 64 << 20
_KV_KEYS = ("folders", "capacity_bytes", "eviction", "salt", "host_bytes", "bytes_a_day")


def kv_store(options: Mapping[str, Any], chunk_bytes: int, *, model: str, dtype: str, layout: str,
             read_only: bool = False) -> kv.Store:
    """Opens the store for a host's options: those of `kv.Store` that a user may give, and Penstock's settings."""
    missing = [key for key in ("folders", "capacity_bytes") if key not in options]
    if missing:
        raise ValueError(f"the configuration of Penstock's KV store lacks {' and '.join(missing)}: give the folders, "
                         "one for each drive, and how many bytes each process may have there")
    slot = -(-(chunk_bytes + _KV_HEADER_BYTES) // 65536) * 65536
    settings = {key: value for key, value in options.items() if key not in _KV_KEYS}
    return kv.Store(**{key: value for key, value in options.items() if key in _KV_KEYS}, model=model, dtype=dtype,
                    layout=layout, extent_bytes=max(slot, _KV_EXTENT_BYTES), read_only=read_only,
                    session=penstock.Session(**settings) if settings else penstock.default_session())


_KV_AT_ONCE = 4


def in_parts(call: Callable[..., Future[list[kv.Outcome]]], keys: Sequence[Any],
             memories: Sequence[Any]) -> list[kv.Outcome]:
    """`Store.get_async` or `put_async` in several parts: checksums of one part are computed while another one's bytes
    move."""
    each = max(-(-len(keys) // _KV_AT_ONCE), 1)
    futures: list[Future[list[kv.Outcome]]] = []
    try:
        for i in range(0, len(keys), each):
            futures.append(call(keys[i:i + each], memories[i:i + each]))
    finally:
        wait(futures)  # Also after a failure nothing moves any more when this returns.
    return [outcome for future in futures for outcome in future.result()]


def stream(files: Sequence[str], is_wanted: Callable[[str], bool], settings: Mapping[str, Any],
           tell: Callable[[str], None], group: Any = None) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the wanted tensors of the files. Calls `tell` at the end with a sentence that names the paths of the
    bytes.

    group: the ranks that all need these tensors, if they read them together.
    """
    weights = Weights(files)
    wanted = [name for name in weights.names() if is_wanted(name)]
    # A separate session, so that its pinned memory is freed after loading.
    with penstock.Session(**settings) as session:
        plan = weights.plan(wanted, device=device(), session=session, group=group)
        yield from plan
    share = "" if group is None else "its share of "
    tell(f"Penstock read {share}{len(plan)} tensors of {len(files)} files to {plan.device}, loading into the model "
         f"included: {plan.progress}")
