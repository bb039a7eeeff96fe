#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random rows of 512 B of a file in the page cache, by penstock.gpu.rows and by what people do without it.

    alternatives.py FOLDER [--mib 2048] [--rounds 3]

The rows are drawn by Zipf's law (0.99), or each is as likely as any other. The sides take turns: kernels that read the
file by themselves, without a cache and with one of a quarter of the file; torch.index_select of the mapped file on all
CPUs into pinned memory and one copy; KvikIO, a pread for each row by eight threads, where it is installed. Every row of
each first round is compared. A figure is millions of rows a second, the median with the lowest and highest behind it.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

import penstock
import penstock.gpu

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from turns import figure, machine, there_and_back  # noqa: E402

ROW, BATCH, BATCHES, OF_KVIKIO = 512, 1 << 18, 16, 1 << 14


def drawn(rows: int, law: str) -> torch.Tensor:
    """The numbers of the rows, by batches."""
    if law == "uniform":
        return torch.randint(rows, (BATCHES, BATCH))
    sums = torch.cumsum(torch.arange(1, rows + 1, dtype=torch.float64) ** -0.99, 0)
    ranks = torch.searchsorted(sums, torch.rand(BATCH * BATCHES, dtype=torch.float64) * sums[-1])
    return torch.randperm(rows)[ranks.clamp(max=rows - 1)].reshape(BATCHES, BATCH)


class ByIndexSelect:
    def __init__(self, path: Path, batches: torch.Tensor):
        self.table = torch.from_file(str(path), shared=False, size=path.stat().st_size // 8,
                                     dtype=torch.int64).reshape(-1, ROW // 8)
        self.batches = list(batches)
        self.pinned = torch.empty((BATCH, ROW // 8), dtype=torch.int64, pin_memory=True)
        self.out = torch.empty((BATCH, ROW // 8), dtype=torch.int64, device="cuda")

    def __call__(self, number: int) -> torch.Tensor:
        torch.index_select(self.table, 0, self.batches[number], out=self.pinned)
        return self.out.copy_(self.pinned, non_blocking=True)


class ByKernels:
    def __init__(self, path: Path, batches: torch.Tensor, cache_bytes: int):
        self.table = penstock.gpu.open(penstock.open(path), cache_bytes=cache_bytes, slot_bytes=ROW)
        self.batches = [batch.cuda() for batch in batches]

    def __call__(self, number: int) -> torch.Tensor:
        return penstock.gpu.rows(self.table, self.batches[number], ROW).view(torch.int64)


class ByKvikIO:
    def __init__(self, path: Path, batches: torch.Tensor):
        import kvikio
        import kvikio.defaults

        kvikio.defaults.set({"num_threads": 8})
        self.file = kvikio.CuFile(str(path), "r")
        self.batches = [batch.tolist() for batch in batches[:, :OF_KVIKIO]]
        self.out = torch.empty((OF_KVIKIO, ROW // 8), dtype=torch.int64, device="cuda")
        self.places = list(self.out)

    def __call__(self, number: int) -> torch.Tensor:
        reads = [self.file.pread(place, ROW, row * ROW) for place, row in zip(self.places, self.batches[number])]
        for read in reads:
            if read.get() != ROW:
                raise RuntimeError("KvikIO read less than a row")
        return self.out


def rate(side, batches: torch.Tensor, table: torch.Tensor, compares: bool) -> float:
    count, seconds = 0, 0.0
    for number, batch in enumerate(batches):
        torch.cuda.synchronize()
        began = time.monotonic()
        found = side(number)
        torch.cuda.synchronize()
        seconds += time.monotonic() - began
        count += len(found)
        if compares and not torch.equal(found.cpu(), table[batch[:len(found)]]):
            sys.exit(f"{type(side).__name__} gave a wrong row")
    return count / seconds / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    said = parser.parse_args()
    rows = said.mib * (1 << 20) // ROW
    table = torch.randint(1 << 62, (rows, ROW // 8))
    path = said.folder / "alternatives.rows"
    table.numpy().tofile(path)
    print(f"{machine(torch.cuda.get_device_name())}: {rows} rows of {ROW} B in the page cache, "
          f"{torch.get_num_threads()} threads of torch")
    for law in ("zipf", "uniform"):
        batches = drawn(rows, law)
        made = {"rows, no cache": lambda: ByKernels(path, batches, 0),
                "rows, cache of a quarter": lambda: ByKernels(path, batches, said.mib * (1 << 20) // 4),
                "index_select, one copy": lambda: ByIndexSelect(path, batches),
                "KvikIO, a pread a row": lambda: ByKvikIO(path, batches)}
        sides, rates = {}, {}
        for name, make in made.items():
            try:
                sides[name] = make()
            except ImportError as error:
                print(f"{law:8} {name:26} left out: {error}")
                continue
            rates[name] = []
            rate(sides[name], batches, table, True)
        for _, name in there_and_back(rates, said.rounds):
            rates[name].append(rate(sides[name], batches, table, False))
        select = statistics.median(rates["index_select, one copy"])
        for name, samples in rates.items():
            print(f"{law:8} {name:26} {figure(samples, ' M rows/s', width=8)}, "
                  f"{statistics.median(samples) / select:.2f} of index_select", flush=True)
        for side in sides.values():
            if isinstance(side, ByKernels):
                print(f"{law:8} {side.table.info()}")
                side.table.close()
    path.unlink()


if __name__ == "__main__":
    main()
