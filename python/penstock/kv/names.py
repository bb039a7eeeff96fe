# SPDX-License-Identifier: Apache-2.0

"""Names of chunks and models: 16 bytes by BLAKE2b, keyed by the tenant's salt.

Without the salt nobody can find out from a store's files whether a prompt was seen, or forge another tenant's chunk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["Namer"]

_REMEMBERED_MOST = 1 << 15  # Of each kind of keys.
_REMEMBERED_LENGTH_MOST = 256

Key = bytes | str


def _bytes(value: Key) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Namer:
    """Makes the names of one tenant's chunks of one model, and remembers those of keys that were named lately."""

    def __init__(self, model: str, dtype: str, layout: str, salt: Key) -> None:
        secret = hashlib.blake2b(_bytes(salt), person=b"penstock.kv", digest_size=32).digest()
        what = json.dumps([model, dtype, layout], ensure_ascii=True).encode()
        self.store = hashlib.blake2b(what, key=secret, person=b"store", digest_size=16).digest()
        # Depends on the store's name, too: the same key of another model has another name.
        self._chunks = hashlib.blake2b(key=secret, person=b"chunk", digest_size=16)
        self._chunks.update(self.store)
        # Bytes and text apart: they are never equal, and comparing them may raise.
        self._names: dict[type, dict[Any, bytes]] = {bytes: {}, str: {}}

    def chunks(self, keys: Sequence[Key]) -> bytes:
        """The names of these keys' chunks, concatenated."""
        if isinstance(keys, (bytes, str)):
            raise TypeError("keys: expected a list of keys, not one")
        keys = keys if isinstance(keys, (list, tuple)) else list(keys)  # It may be read twice.
        kinds = set(map(type, keys))
        known = self._names.get(kinds.pop()) if len(kinds) == 1 else None
        if known is None:  # Keys of several kinds, or of one that may have no hash.
            return b"".join(map(self._name_of, keys))
        name_of = self._name_of
        return b"".join([known.get(key) or name_of(key) for key in keys])

    def _name_of(self, key: Key) -> bytes:
        made = self._chunks.copy()
        made.update(key if isinstance(key, bytes) else _bytes(key))
        name = made.digest()
        known = self._names.get(type(key))
        if known is not None and len(key) <= _REMEMBERED_LENGTH_MOST:
            if len(known) >= _REMEMBERED_MOST:
                known.clear()
            known[key] = name
        return name
