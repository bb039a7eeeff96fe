#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Gets into paged memory of a GPU by penstock.kv.Blocks: GB/s, and their part of what the link moves.

    kv_blocks.py FOLDER [--mib 2,16] [--layers 32] [--chunks 1,8,32] [--passes 5] [--host-bytes 0] [--json]

Puts half a gibibyte of chunks into a store in the page cache (`direct=False`), each of a piece in every layer, and gets
all of them, so many by a call: once to warm up, and then as often as `--passes` says. Told are the median of the
passes, their least and most, and the time of a call; the bytes are compared at the end.
"""

import argparse
import json
import shutil
import statistics
import time
from pathlib import Path

import torch

from penstock import kv

TOTAL = 512 << 20


def link_rate():
    """GB/s of copies of 256 MiB from page-locked memory; the best of five."""
    host = torch.empty(256 << 20, dtype=torch.uint8).pin_memory()
    there = torch.empty_like(host, device="cuda")
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return host.numel() / min(seconds) / 1e9


def filled(store, keys, layers, chunk):
    count = TOTAL // chunk
    layout = (count, chunk // layers)
    source = [torch.randint(0, 256, layout, dtype=torch.uint8, device="cuda") for _ in range(layers)]
    blocks = kv.Blocks(source)
    for first in range(0, count, 16):
        which = range(first, min(first + 16, count))
        assert set(store.put([keys[i] for i in which], [blocks[i] for i in which])) == {kv.Outcome.DONE}
        store.commit()
    return source


def passes(store, keys, into, each, times):
    """GB/s of each pass, and the seconds of all calls."""
    blocks = kv.Blocks(into)
    rates, calls = [], []
    for turn in range(times + 1):
        seconds = []
        for first in range(0, len(blocks), each):
            memory = [blocks[i] for i in range(first, first + each)]
            began = time.perf_counter()
            outcomes = store.get(keys[first:first + each], memory)
            seconds.append(time.perf_counter() - began)
            assert set(outcomes) == {kv.Outcome.DONE}
        if turn > 0:
            rates.append(TOTAL / sum(seconds) / 1e9)
            calls += seconds
    return rates, calls


def measure(words, chunk):
    shutil.rmtree(words.folder / "kv", ignore_errors=True)
    link = link_rate()
    keys = [b"%d" % i for i in range(TOTAL // chunk)]
    found = []
    with kv.Store(words.folder / "kv", model="bench", capacity_bytes=4 * TOTAL, direct=False,
                  host_bytes=words.host_bytes) as store:
        source = filled(store, keys, words.layers, chunk)
        into = [torch.empty_like(layer) for layer in source]
        for each in map(int, words.chunks.split(",")):
            rates, calls = passes(store, keys, into, each, words.passes)
            found.append({"chunk_mib": chunk >> 20, "layers": words.layers, "chunks": each, "link_gb_per_s": link,
                          "gb_per_s": statistics.median(rates), "least": min(rates), "most": max(rates),
                          "of_link": statistics.median(rates) / link, "call_us": 1e6 * statistics.median(calls)})
        assert all(map(torch.equal, source, into))
        path = store.state()["bytes_by_path"]
    shutil.rmtree(words.folder / "kv")
    return found, path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", default="2,16")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--chunks", default="1,8,32")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--host-bytes", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each size and number of chunks")
    words = parser.parse_args()
    for mib in map(int, words.mib.split(",")):
        found, path = measure(words, mib << 20)
        for one in found:
            print(json.dumps(one) if words.json else
                  f"{mib:>3} MiB of {words.layers} pieces, {one['chunks']:>2} a call: {one['gb_per_s']:.1f} GB/s "
                  f"[{one['least']:.1f} {one['most']:.1f}], {one['of_link']:.2f} of the link's "
                  f"{one['link_gb_per_s']:.1f}; {one['call_us']:.0f} us a call", flush=True)
        if not words.json:
            print(f"    bytes by path: {path}", flush=True)
