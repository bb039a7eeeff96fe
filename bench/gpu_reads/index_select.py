#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random rows of 512 B of a table, Zipf 0.99, by torch.index_select on all CPUs into pinned memory and one copy.

index_select.py MIB prints rows a second, beside `gpu_reads --rows FOLDER MIB`.
"""

import sys
import time

import torch

ROW, BATCH, BATCHES = 512, 1 << 18, 16


def main() -> None:
    rows = int(sys.argv[1]) * (1 << 20) // ROW
    table = torch.arange(rows * ROW // 8, dtype=torch.int64).reshape(rows, ROW // 8)
    sums = torch.cumsum(torch.arange(1, rows + 1, dtype=torch.float64) ** -0.99, 0)
    ranks = torch.searchsorted(sums, torch.rand(BATCH * BATCHES, dtype=torch.float64) * sums[-1])
    drawn = torch.randperm(rows)[ranks.clamp(max=rows - 1)].reshape(BATCHES, BATCH)
    pinned = torch.empty((BATCH, ROW // 8), dtype=torch.int64, pin_memory=True)
    out = torch.empty((BATCH, ROW // 8), dtype=torch.int64, device="cuda")

    def gather(batch: torch.Tensor) -> None:
        torch.index_select(table, 0, batch, out=pinned)
        out.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()

    gather(drawn[0])
    is_right = torch.equal(out.cpu(), table[drawn[0]])
    rates = []
    for _ in range(3):
        began = time.monotonic()
        for batch in drawn:
            gather(batch)
        rates.append(BATCH * BATCHES / (time.monotonic() - began) / 1e6)
    print(f"torch.index_select by {torch.get_num_threads()} CPUs and one copy: {max(rates):.2f} M rows/s "
          f"(least {min(rates):.2f}), {'right' if is_right else 'WRONG'}")


if __name__ == "__main__":
    main()
