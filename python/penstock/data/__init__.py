# SPDX-License-Identifier: Apache-2.0

"""Records for training, read ahead into GPU or host memory, in a reproducible order.

    index = data.RecordIndex.tokens(["a.bin", "b.npy"], sequence_length=2048, dtype="uint16")
    with data.Prefetcher(index, batch_size=8, device="cuda", seed=1) as batches:
        for tokens in batches:
            ...

`penstock.data.torch.Dataset` hands the batches to torch's DataLoader.
"""

from penstock.data.errors import DataError
from penstock.data.index import RecordIndex
from penstock.data.prefetcher import Prefetcher

__all__ = ["DataError", "Prefetcher", "RecordIndex"]
