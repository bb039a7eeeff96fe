# SPDX-License-Identifier: Apache-2.0

"""python -m penstock: what this machine can do, and Penstock's libcufile in front of NVIDIA's for a program.

Exit codes: 0 done, 1 failed, 2 wrong usage; `run` ends as the program does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

import penstock
from penstock import launcher

EPILOG = """Examples:
  python -m penstock check                       devices, paths and settings of this process
  python -m penstock explain model.safetensors   how the file would be read into GPU memory, and why so
  python -m penstock run python train.py         the program's cuFile calls go to Penstock
Exit codes: 0 done, 1 failed, 2 wrong usage; run ends as the program does."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m penstock", description="File data into and out of GPU memory.",
                                     epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=penstock.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="devices, paths with reason and remedy, settings")
    check.add_argument("--json", action="store_true", help="print JSON")
    explain = commands.add_parser("explain", help="what every path says of reading a file, best first")
    explain.add_argument("file", metavar="FILE")
    explain.add_argument("--device", type=int, default=0, metavar="N", help="whose memory is meant [0]")
    explain.add_argument("--json", action="store_true", help="print JSON")
    run = commands.add_parser("run", help="put Penstock's libcufile in front for a program, and tell if it was used",
                              usage="python -m penstock run [--quiet] COMMAND [ARGUMENT ...]")
    run.add_argument("--quiet", action="store_true", help="tell nothing on standard error, but for failures")
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser.parse_args(arguments)


def verdict_line(verdict: dict[str, object]) -> str:
    line = f"  {verdict['path']:<10} {'usable' if verdict['usable'] else 'no'}"
    if verdict["reason"]:
        line += f": {verdict['sentence']}"
        if verdict["remedy"]:
            line += f"\n  {'':<10} remedy: {verdict['remedy']}"
    return line


def print_check(told: dict[str, object], as_json: bool) -> int:
    if as_json:
        print(json.dumps(told, indent=1, default=lambda value: value.hex()))
        return 0
    engine, devices = penstock.engine(), penstock.default_session().devices()
    print(f"Penstock {engine['version']}, {engine['library']}")
    for device in devices:
        stand_in = " (host memory that stands in for a GPU)" if device["stand_in"] else ""
        print(f"device {device['ordinal']}: {device['name']} {device['pci_address']}{stand_in}".rstrip())
    if told["device_reason"]:
        print(f"no GPU: {told['device_reason']}")
    print("paths, by machine and settings alone:")
    for verdict in penstock.default_session().outlook():
        print(verdict_line(verdict))
    return 0


def print_explain(file: str, device: int, as_json: bool) -> int:
    verdicts = penstock.explain(file, device=device)
    if as_json:
        print(json.dumps(verdicts, indent=1))
    else:
        print(f"{file}, read into memory of device {device}, best first:")
        for verdict in verdicts:
            print(verdict_line(verdict))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    said = parse(arguments)
    try:
        if said.command == "check":
            return print_check(penstock.check(), said.json)
        if said.command == "explain":
            return print_explain(said.file, said.device, said.json)
        return launcher.run(said.program, quiet=said.quiet)
    except (OSError, ValueError, ImportError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
