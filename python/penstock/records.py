# SPDX-License-Identifier: Apache-2.0

"""What the package tells of sessions, files and paths: dictionaries whose keys and types are known.

They are made by the native module and are plain dictionaries, so that they go to JSON as they are and `told["name"]` is
how they are read. A later release may add keys.
"""

from typing import NotRequired, TypedDict

__all__ = ["Check", "Counter", "Device", "Engine", "FileInfo", "SessionInfo", "Setting", "StripeInfo", "Verdict"]


class Engine(TypedDict):
    """The library at work. library: its file. is_cufile: whether it is the process's libcufile.so.0."""

    version: str
    library: str
    is_cufile: bool


class Setting(TypedDict):
    """A setting that there is. takes: what it may be, in words, to follow "expected"."""

    name: str
    variable: str
    default: str
    takes: str
    meaning: str


class SessionInfo(TypedDict):
    """device_kinds: as "cuda". device_reason: why no GPU can be used, or "". pinned_bytes: host memory that is pinned.
    """

    device_count: int
    device_kinds: str
    device_reason: str
    pinned_bytes: int


class Device(TypedDict):
    """stand_in: host memory plays a GPU. uuid: 16 bytes."""

    ordinal: int
    kind: str
    name: str
    pci_address: str
    memory_bytes: int
    uuid: bytes
    stand_in: bool


class Verdict(TypedDict):
    """What a path says of a request, or of any at all. reason: None where there is none. detail: an errno that goes
    with the reason, or 0. sentence, remedy: for people, or "". standing: "usable", "off", "unknown" or "closed", where
    the command penstock tells of the machine."""

    path: str
    usable: bool
    reason: str | None
    detail: NotRequired[int]
    sentence: str
    remedy: str
    standing: NotRequired[str]


class Counter(TypedDict):
    """Bytes and operations of one path for one reason why no better one was taken, since the session opened."""

    path: str
    reason: str
    read_bytes: int
    read_operations: int
    write_bytes: int
    write_operations: int


class FileInfo(TypedDict):
    """direct_memory_align, direct_offset_align: bytes, 0 where direct I/O cannot be. alignment_source: who told them.
    """

    size: int
    readable: bool
    writable: bool
    opened_direct: bool
    file_system: str
    direct_memory_align: int
    direct_offset_align: int
    alignment_source: str


class StripeInfo(TypedDict):
    """object: what all members are parts of. members: their names, in order."""

    object: str
    size: int
    stripe_bytes: int
    members: list[bytes]


class Check(SessionInfo):
    """What a process can do. shared: the session is the one behind cuFile's calls. settings: of each its value, and who
    set it."""

    engine: Engine
    shared: bool
    devices: list[Device]
    paths: list[Verdict]
    settings: dict[str, tuple[str, str]]
