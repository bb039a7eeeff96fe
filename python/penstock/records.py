# SPDX-License-Identifier: Apache-2.0

"""Types of the dictionaries that describe sessions, files and paths.

The native module makes plain dictionaries, which convert to JSON unchanged and are read as `info["name"]`. A later
release may add keys.
"""

from typing import NotRequired, TypedDict

__all__ = ["Check", "Counter", "Device", "Engine", "FileInfo", "GpuInfo", "SessionInfo", "Setting", "StripeInfo",
           "Verdict"]


class Engine(TypedDict):
    """The library in use. library: its file. is_cufile: whether it is the process's libcufile.so.0."""

    version: str
    library: str
    is_cufile: bool


class Setting(TypedDict):
    """A setting. takes: its valid values in words, to follow "expected"."""

    name: str
    variable: str
    default: str
    takes: str
    meaning: str


class SessionInfo(TypedDict):
    """device_kinds: such as "cuda". device_reason: why no GPU can be used, or "". pinned_bytes: pinned host memory.
    """

    device_count: int
    device_kinds: str
    device_reason: str
    pinned_bytes: int


class Device(TypedDict):
    """stand_in: host memory stands in for a GPU. uuid: 16 bytes."""

    ordinal: int
    kind: str
    name: str
    pci_address: str
    memory_bytes: int
    uuid: bytes
    stand_in: bool


class Verdict(TypedDict):
    """A path's verdict on a request, or in general. reason: None if there is none. detail: an errno for the reason, or
    0. sentence, remedy: for people, or "". standing: "usable", "off", "unknown" or "closed", if the command penstock
    read the machine."""

    path: str
    usable: bool
    reason: str | None
    detail: NotRequired[int]
    sentence: str
    remedy: str
    standing: NotRequired[str]


class Counter(TypedDict):
    """Bytes and operations of one path, by the reason why no better path was taken, since the session opened."""

    path: str
    reason: str
    read_bytes: int
    read_operations: int
    write_bytes: int
    write_operations: int


class FileInfo(TypedDict):
    """direct_memory_align, direct_offset_align: bytes, 0 without direct I/O. alignment_source: where they come from.
    """

    size: int
    readable: bool
    writable: bool
    opened_direct: bool
    file_system: str
    direct_memory_align: int
    direct_offset_align: int
    alignment_source: str


class GpuInfo(TypedDict):
    """What kernels read of a file by themselves. reason: why not all of it is resident under a lease, or None. detail:
    an errno for the reason, or 0. ring_path: of whole blocks that the ring reads from storage. repeated_reads: those
    that saw the file change."""

    size: int
    is_leased: bool
    reason: str | None
    detail: int
    resident_bytes: int
    cache_bytes: int
    resident_reads: int
    ring_reads: int
    ring_path: str
    cached_reads: int
    fetched_blocks: int
    repeated_reads: int
    failed_reads: int


class StripeInfo(TypedDict):
    """object: the object's id. members: the members' names, in order."""

    object: str
    size: int
    stripe_bytes: int
    members: list[bytes]


class Check(SessionInfo):
    """What a process can use. shared: the session is the one behind cuFile's calls. settings: each with its value and
    source."""

    engine: Engine
    shared: bool
    devices: list[Device]
    paths: list[Verdict]
    settings: dict[str, tuple[str, str]]
