# SPDX-License-Identifier: Apache-2.0

"""A store of KV-cache chunks on local drives: a get returns the bytes that were put, or is a miss.

    with penstock.kv.Store("/mnt/nvme0/kv", model="llama-3.1-8b", dtype="bfloat16", layout="tp1",
                           capacity_bytes=200 << 30) as store:
        blocks = penstock.kv.Blocks(caches)  # One tensor of [blocks, ...] per layer.
        store.put([b"hash of a block"], [blocks[7]])
        outcomes = store.get([b"hash of a block"], [blocks[7]])
"""

from penstock._native import Blocks
from penstock.kv.purging import purge
from penstock.kv.ranks import Ranks
from penstock.kv.store import Outcome, Store

__all__ = ["Blocks", "Outcome", "Ranks", "Store", "purge"]
