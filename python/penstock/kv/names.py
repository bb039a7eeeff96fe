# SPDX-License-Identifier: Apache-2.0

"""Names of chunks and models: 16 bytes by BLAKE2b, keyed by the tenant's salt.

Without the salt nobody can find out from a store's files whether a prompt was seen, or forge another tenant's chunk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

__all__ = ["Namer"]

Key = bytes | str


def _bytes(value: Key) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Namer:
    """Makes the names of one tenant's chunks of one model."""

    def __init__(self, model: str, dtype: str, layout: str, salt: Key) -> None:
        secret = hashlib.blake2b(_bytes(salt), person=b"penstock.kv", digest_size=32).digest()
        what = json.dumps([model, dtype, layout], ensure_ascii=True).encode()
        self.store = hashlib.blake2b(what, key=secret, person=b"store", digest_size=16).digest()
        # Depends on the store's name, too: the same key of another model has another name.
        self._chunks = hashlib.blake2b(key=secret, person=b"chunk", digest_size=16)
        self._chunks.update(self.store)

    def chunks(self, keys: Sequence[Key]) -> list[bytes]:
        if isinstance(keys, (bytes, str)):
            raise TypeError("keys: expected a list of keys, not one")
        names, copy = [], self._chunks.copy
        for key in keys:
            name = copy()
            name.update(key if isinstance(key, bytes) else _bytes(key))
            names.append(name.digest())
        return names
