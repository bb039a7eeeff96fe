#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Loading weights: penstock.weights beside the plain read of the same files and beside other loaders.

    weights.py FOLDER [--device cuda] [--gib 8] [--files 4] [--tensors N] [--pairs 5] [--cold] [--json FILE]
    weights.py FOLDER --models large,experts,small
    weights.py FOLDER --first

Makes the files in FOLDER by safetensors' own writer, as models are, where they are not there yet, and takes them away
again with --remove. The sides take turns, so that all meet the same machine; the first turn of each does not count.
Every side gives new tensors each time and drops them after. Loaders that are not installed are named and left out. A
figure is 10^9 bytes a second, the median of the turns with the lowest and highest behind it; what counts is the ratio
in one run. --models measures several models one after the other, each in a folder of its own: few large tensors, a
mixture of experts with 18,868, and 200,000 small ones. With --first each turn is a process: the rate is from its exec
to the last tensor, with imports, the device's context and pinned memory; behind it are the seconds of the load alone.
With --cold the files are dropped from the page cache before each turn, and fio reads them too, where it is installed.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import penstock
from penstock import weights
from safetensors.torch import save_file
from turns import drop, figure, machine, there_and_back


# The GiB of a model, and its tensors: "small" has 16 KiB in each.
MODELS = {"large": (6, 64), "experts": (4, 18_868), "small": (3.3, 200_000)}


def make_files(folder, total, files, tensors):
    made = []
    per_file = max(tensors // files, 1)
    columns = 4096
    rows = max(total // files // per_file // columns // 2, 1)
    for number in range(files):
        path = folder / f"model-{number + 1:05}-of-{files:05}.safetensors"
        made.append(path)
        if path.exists():
            continue
        block = torch.randint(0, 256, (rows * columns * 2,), dtype=torch.uint8).view(torch.bfloat16).view(rows, columns)
        save_file({f"layer.{number}.{i:05}.weight": block.clone() for i in range(per_file)}, path)
        print(f"made {path}", file=sys.stderr)
    return made


def plain_read(paths, device):
    """What the link gives: each file by one read."""
    memory = []
    for path in paths:
        size = path.stat().st_size
        memory.append(torch.empty(size, dtype=torch.uint8, device=device))
        with penstock.open(path) as file:
            assert file.read(memory[-1]).bytes == size
    return memory


def ours(paths, device):
    return weights.Weights(paths).plan(device=device).load()


def by_safetensors(paths, device):
    from safetensors.torch import load_file

    return [load_file(path, device=str(device)) for path in paths]


def prefetched(safe_open, paths, device, **options):
    """All files at once. The loaders live as long as the tensors, as in programs that hand them out one by one."""
    loaders = [safe_open(str(path), framework="pt", device=str(device)).prefetch(**options) for path in paths]
    return {name: tensor for loader in loaders for name, tensor in loader}


def by_prefetch(paths, device, **options):
    from safetensors import safe_open

    return prefetched(safe_open, paths, device, **options)


def by_prefetch_of_16(paths, device):
    return by_prefetch(paths, device, threads=16)


def by_our_prefetch(paths, device):
    from penstock.safetensors import safe_open

    return prefetched(safe_open, paths, device)


def by_fastsafetensors(paths, device):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    loader = SafeTensorsFileLoader(SingleGroup(), device=str(device), nogds=True)
    loader.add_filenames({0: [str(path) for path in paths]})
    buffers = loader.copy_files_to_device()
    tensors = {key: buffers.get_tensor(key).clone() for key in loader.get_keys()}
    buffers.close()
    loader.close()
    return tensors


def by_runai(paths, device):
    from runai_model_streamer import SafetensorsStreamer

    tensors = {}
    with SafetensorsStreamer() as streamer:
        streamer.stream_files([str(path) for path in paths])
        for name, tensor in streamer.get_tensors():
            tensors[name] = tensor.to(device, copy=True)
    return tensors


def by_instanttensor(paths, device, **options):
    from instanttensor import safe_open

    with safe_open([str(path) for path in paths], framework="pt", device=str(device), **options) as opened:
        return dict(opened.tensors())


def by_instanttensor_buffered(paths, device):
    """By the page cache, where it reads past it else."""
    from instanttensor import BackendPolicy

    return by_instanttensor(paths, device, backend=BackendPolicy.BUFFERED)


def packed(path):
    """FlashPack's own file of the same tensors, made where it is not there yet."""
    from flashpack import pack_to_file
    from safetensors.torch import load_file

    made = path.with_suffix(".flashpack")
    if not made.exists():
        pack_to_file(load_file(path), str(made), None)
    return str(made)


def by_flashpack(paths, device):
    """Reads past the page cache."""
    from flashpack.deserialization import iterate_from_flash_tensor, read_flashpack_file

    return [dict(iterate_from_flash_tensor(*read_flashpack_file(packed(path), device))) for path in paths]


SIDES = {
    "penstock.weights": ours, "penstock prefetch": by_our_prefetch, "plain read": plain_read,
    "safetensors prefetch": by_prefetch, "16 threads": by_prefetch_of_16, "safetensors": by_safetensors,
    "fastsafetensors": by_fastsafetensors, "Run:ai": by_runai, "InstantTensor": by_instanttensor,
    "InstantTensor buffered": by_instanttensor_buffered, "FlashPack": by_flashpack,
}


def touch(tensors):
    for each in tensors.values() if isinstance(tensors, dict) else tensors:
        if isinstance(each, dict):
            touch(each)
        else:
            each.flatten().view(torch.uint8)[::4096].max()


def by_fio(paths):
    """What the storage gives: O_DIRECT, 1 MiB, 32 in flight."""
    names = ":".join(str(path.resolve()).replace(":", "\\:") for path in paths)
    said = subprocess.run(
        ["fio", "--name=read", f"--filename={names}", "--rw=read", "--bs=1M", "--direct=1", "--ioengine=io_uring",
         "--iodepth=32", "--file_service_type=sequential", "--readonly", "--output-format=json"],
        capture_output=True, check=True, text=True).stdout
    return json.loads(said)["jobs"][0]["read"]["bw_bytes"] / 1e9


def first_turn(side, paths, device):
    """In a process of its own: seconds from its exec, and those of the load alone."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-B", __file__, "--turn", side, "--device", str(device), *map(str, paths)],
                          stdout=subprocess.PIPE, text=True) as child:
        line = child.stdout.readline()
        seconds = time.perf_counter() - began
    if child.returncode != 0 or not line:
        raise RuntimeError(f"it ended with {child.returncode}")
    return seconds, float(line)


def turn(side, paths, device, cold):
    if cold:
        drop([*paths, *(made for path in paths if (made := path.with_suffix(".flashpack")).exists())])
    began = time.perf_counter()
    tensors = SIDES[side](paths, device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    else:
        touch(tensors)  # Mapped files are read when they are looked at.
    seconds = time.perf_counter() - began
    del tensors
    return seconds


def compare(paths, device, said):
    total = sum(path.stat().st_size for path in paths)
    rates, loads, left_out = {}, {}, {}
    for side in said.only.split(","):
        try:
            first_turn(side, paths, device) if said.first else turn(side, paths, device, said.cold)
            rates[side], loads[side] = [], []
        except Exception as error:  # noqa: BLE001, another loader's own.
            left_out[side] = f"{type(error).__name__}: {error}"
    for number, side in there_and_back(rates, said.pairs):
        print(f"turn {number + 1} of {said.pairs}: {side}", file=sys.stderr)
        if said.first:
            if said.cold:
                drop(paths)
            seconds, load = first_turn(side, paths, device)
            loads[side].append(load)
        else:
            seconds = turn(side, paths, device, said.cold)
        rates[side].append(total / 1e9 / seconds)
    return total, rates, loads, left_out


def measure(said, device, folder, gib, tensors):
    """Prints a table of one model, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = make_files(folder, int(gib * 2**30), said.files, tensors)
    for path in paths:
        path.read_bytes()
    total, rates, loads, left_out = compare(paths, device, said)
    plan = weights.Weights(paths).plan(device=device)
    plan.load()
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    print(f"{machine(gpu)}: {total / 1e9:.2f} GB in {len(paths)} files, {len(plan)} tensors, "
          f"{'cold' if said.cold else 'page cache'}, to {device}{', from exec' if said.first else ''}")
    first = statistics.median(next(iter(rates.values())))
    for side, samples in rates.items():
        each = total / 1e3 / statistics.median(samples) / len(plan)
        print(f"{side:22} {figure(samples, ' GB/s', width=7)}, first / this {first / statistics.median(samples):.2f}, "
              f"{each:.2f} us a tensor{', the load alone ' + figure(loads[side], ' s') if said.first else ''}")
    for side, why in left_out.items():
        print(f"{side:22} left out: {why.splitlines()[0] if why else ''}")
    print(f"paths of the first: {plan.progress.bytes_by_path}, {plan.progress.bytes_direct} directly", flush=True)
    if said.cold and shutil.which("fio"):
        drop(paths)
        print(f"fio {figure([by_fio(paths) for _ in range(said.pairs)], ' GB/s', width=7)}")
    if said.remove:
        for path in paths:
            path.unlink()
            path.with_suffix(".flashpack").unlink(missing_ok=True)
    return {"bytes": total, "tensors": len(plan), "rates": rates, "left_out": left_out,
            "paths": plan.progress.bytes_by_path}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="+", help="one; with --turn the files")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--gib", type=float, default=8)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--tensors", type=int, default=64, help="in all files together")
    parser.add_argument("--models", help=f"several of {', '.join(MODELS)} in place of --gib and --tensors")
    parser.add_argument("--scale", type=float, default=1, help="of --models: a part of their bytes and tensors")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default=",".join(SIDES))
    parser.add_argument("--cold", action="store_true", help="drop the files from the page cache before each turn")
    parser.add_argument("--first", action="store_true", help="a process for each turn")
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    parser.add_argument("--remove", action="store_true", help="take the files away at the end")
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    device = torch.device(said.device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())  # Some loaders want it so.
    if said.turn is not None:
        print(turn(said.turn, said.folder, device, False), flush=True)
        return
    [folder] = said.folder
    if said.models is None:
        found = measure(said, device, folder, said.gib, said.tensors)
    else:
        found = {}
        for name in said.models.split(","):
            gib, tensors = MODELS[name]
            found[name] = measure(said, device, folder / name, gib * said.scale, round(tensors * said.scale))
    if said.json:
        said.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
