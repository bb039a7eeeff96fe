#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""`penstock stage` against what a plain get of s3fs does, by turns: MB a second, CPU seconds a GB of the client.

    stage.py FOLDER [--mib 256] [--files 4] [--pairs 3] [--no-verify]

Objects of a moto server in a process of its own, onto the drive of FOLDER. Both end when all is flushed; stage has read
everything back and compared it by then. The server is a small one: it, and not the drive, binds where CPUs are few.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
import s3fs

from penstock import stage

SERVER = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
input()
"""


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(fetch, to, nbytes):
    """(MB a second, CPU seconds a GB)."""
    shutil.rmtree(to, ignore_errors=True)
    cpu, began = cpu_seconds(), time.perf_counter()
    fetch(to)
    seconds = time.perf_counter() - began
    return nbytes / 1e6 / seconds, (cpu_seconds() - cpu) / nbytes * 1e9


def plain(to):
    s3fs.S3FileSystem(skip_instance_cache=True).get("data/", f"{to}/", recursive=True)
    for path in to.rglob("*"):
        with open(path, "rb") as file:
            os.fsync(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--no-verify", action="store_true")
    said = parser.parse_args()
    nbytes = (said.mib << 20) // said.files * said.files
    with (tempfile.TemporaryDirectory(dir=said.folder) as folder,
          subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True) as server):
        os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(server.stdout.readline())}",
                       "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        client = boto3.client("s3")
        client.create_bucket(Bucket="data")
        for i in range(said.files):
            client.put_object(Bucket="data", Key=f"file-{i}", Body=random.Random(i).randbytes(nbytes // said.files))
        to, rates = Path(folder, "to"), []

        def staged(to):
            stage.stage(["s3://data"], [to], part_bytes=8 << 20, verify=not said.no_verify)

        for pair in range(said.pairs):
            turns = [("stage", staged), ("s3fs", plain)]
            found = {name: timed(fetch, to, nbytes) for name, fetch in (turns if pair % 2 else turns[::-1])}
            rates.append(found["stage"][0] / found["s3fs"][0])
            print("  ".join(f"{name}: {rate:.0f} MB/s, {cpu:.2f} s/GB" for name, (rate, cpu) in sorted(found.items())),
                  f" ratio {rates[-1]:.2f}", flush=True)
        print(f"median ratio {statistics.median(rates):.2f} of {len(rates)} pairs")
        server.stdin.close()


if __name__ == "__main__":
    main()
