# SPDX-License-Identifier: Apache-2.0

"""Names of chunks and models: 16 bytes by BLAKE2b, keyed by the tenant's salt.

Without the salt nobody can find out from a store's files whether a prompt was seen, or forge another tenant's chunk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

__all__ = ["Namer"]

_REMEMBERED_MOST = 1 << 15

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
        self._names: dict[Key, bytes] = {}

    def chunks(self, keys: Sequence[Key]) -> bytes:
        """The names of these keys' chunks, concatenated."""
        if isinstance(keys, (bytes, str)):
            raise TypeError("keys: expected a list of keys, not one")
        keys = keys if isinstance(keys, (list, tuple)) else list(keys)  # It may be read twice.
        known, name_of = self._names.get, self._name_of
        try:
            return b"".join([known(key) or name_of(key) for key in keys])
        except TypeError:  # One that is neither bytes nor text may have no hash.
            return b"".join(map(name_of, keys))

    def _name_of(self, key: Key) -> bytes:
        made = self._chunks.copy()
        made.update(key if isinstance(key, bytes) else _bytes(key))
        name = made.digest()
        if type(key) is bytes or type(key) is str:
            if len(self._names) >= _REMEMBERED_MOST:
                self._names = {}
            self._names[key] = name
        return name
