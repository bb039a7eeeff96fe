# SPDX-License-Identifier: Apache-2.0

"""python -m penstock: checks this machine, runs programs with Penstock's libcufile in place of NVIDIA's, converts
weights, handles checkpoints, and stages files.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; `run` returns the program's exit code.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

import penstock
from penstock import checkpoint_commands, deepspeed_commands, launcher, stage_commands, terminal
from penstock.records import Verdict
from penstock.terminal import complain, positive, progress_shown, say, say_json

SHARD_BYTES = 5_000_000_000

EPILOG = """Examples:
  python -m penstock check                       devices, paths and settings of this process
  python -m penstock check --deepspeed ds_config.json   what DeepSpeed and Penstock make of a configuration
  python -m penstock explain model.safetensors   how the file would be read into GPU memory, and why so
  python -m penstock run --report python train.py   the program's cuFile calls go to Penstock; what went by which path
  python -m penstock run --safetensors python serve.py   safetensors' calls go to Penstock in its processes
  python -m penstock convert model.pt model/     a checkpoint of torch, converted to safetensors
  python -m penstock checkpoint drain /local/step-100 --to /shared/checkpoints
  python -m penstock stage s3://bucket/model /local/model   onto local drives, checked, ready for direct reads
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted; run ends as the program does."""


def parse(words: list[str]) -> argparse.Namespace:
    missing = "" if launcher.has_tool() else f"\n\nThe command penstock is not here: {launcher.WHERE}."
    parser = terminal.Parser("python -m penstock", description="File data into and out of GPU memory.",
                             epilog=EPILOG + missing, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=penstock.__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="devices, paths with reason and remedy, settings")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--all", action="store_true", help="also print every row, as `penstock check --all`, where that "
                       "command is installed")
    what = check.add_mutually_exclusive_group()
    what.add_argument("--root", metavar="DIR", help="check the captured machine in DIR, as `penstock check --root`, "
                      "where that command is installed")
    what.add_argument("--deepspeed", metavar="FILE", help="check instead the DeepSpeed configuration in FILE: what "
                      "its settings of files mean, and what Penstock would do in the folders that it names")
    explain = commands.add_parser("explain", help="which paths can read a file, best first, and why others cannot")
    explain.add_argument("file", metavar="FILE")
    explain.add_argument("--device", type=int, default=0, metavar="N", help="the device whose memory takes part [0]")
    explain.add_argument("--json", action="store_true", help="print JSON")
    commands.add_parser("run", add_help=False, help="run a program with Penstock's libcufile in front, and report "
                        "with --report what went through it, as `penstock run`; without that command, the part of it "
                        "that needs none. Given first, --safetensors puts penstock.weights under safetensors' calls "
                        "in its Python processes, too")
    convert = commands.add_parser("convert", help="convert a checkpoint of torch to safetensors",
                                  description="Nothing in the checkpoint is executed; values that are no tensors "
                                  "are left out.")
    convert.add_argument("source", metavar="SOURCE", help="a file of torch.save, or a folder: sharded, or of "
                         "torch.distributed.checkpoint")
    convert.add_argument("destination", metavar="DESTINATION", help="a file, if its name ends with .safetensors, "
                         "which is replaced, or a folder without a model, which gets several files and their index "
                         "where one would be too large")
    convert.add_argument("--shard-bytes", type=positive, default=SHARD_BYTES, metavar="N",
                         help="the most tensor bytes of one file; the conversion needs as much memory [%(default)s]")
    convert.add_argument("--json", action="store_true", help="print JSON")
    checkpoint_commands.add_to(commands)
    stage_commands.add_to(commands)
    said = parser.parse_args(words)
    if said.command == "check" and said.all and said.deepspeed is not None:
        check.error("--all cannot be given with --deepspeed: its report has every row")
    return said


def verdict_lines(verdict: Verdict) -> list[str]:
    line = f"  {verdict['path']:<10} {'usable' if verdict['usable'] else verdict.get('standing', 'no')}"
    if verdict["reason"] in (0, "", "none", None):
        return [line]
    remedy = [f"  {'':<10} remedy: {launcher.named(str(verdict['remedy']))}"] if verdict["remedy"] else []
    return [f"{line}: {verdict['sentence']}", *remedy]


def print_check(as_json: bool, root: str | None, with_all: bool) -> int:
    """Prints facts of this process, and of the machine the result of `penstock check`; without that command, the
    library's dry run for each path."""
    if root is not None or with_all:
        given = {"--all": with_all, "--json": as_json}
        of_root = [] if root is None else ["--root", root]
        return launcher.check_by_tool([*of_root, *(option for option, is_given in given.items() if is_given)])
    report = penstock.check()
    report["paths"] = launcher.checked_paths() or report["paths"]
    if as_json:
        say_json(report)
        return 0
    engine, devices = penstock.engine(), penstock.default_session().devices()
    say(f"Penstock {engine['version']}, {engine['library']}")
    for device in devices:
        stand_in = " (host memory that stands in for a GPU)" if device["stand_in"] else ""
        say(f"device {device['ordinal']}: {device['name']} {device['pci_address']}{stand_in}".rstrip())
    if report["device_reason"]:
        say(f"no GPU: {launcher.named(str(report['device_reason']))}")
    say("paths, by machine and settings alone:")
    for verdict in report["paths"]:
        say(*verdict_lines(verdict))
    return 0


def print_explain(file: str, device: int, as_json: bool) -> int:
    verdicts = penstock.explain(file, device=device)
    if as_json:
        say_json(verdicts)
    else:
        say(f"{file}, read into memory of device {device}, best first:")
        for verdict in verdicts:
            say(*verdict_lines(verdict))
    return 0


def print_conversion(source: str, destination: str, shard_bytes: int, as_json: bool) -> int:
    from penstock import weights

    with progress_shown("read") as show:
        done = weights.convert(source, destination, shard_bytes=shard_bytes, on_progress=show)
    if as_json:
        say_json({"files": [str(file) for file in done.files], "tensors": done.tensors, "bytes": done.nbytes,
                  "left_out": done.left_out})
        return 0
    say(f"{done.tensors} tensors, {done.nbytes} bytes, in {len(done.files)} files:")
    for file in done.files:
        say(f"  {file}")
    if done.left_out:
        say(f"left out, since they are no tensors: {len(done.left_out)} values, such as {done.left_out[0]!r}")
    return 0


def run(said: argparse.Namespace) -> int:
    if said.command == "check" and said.deepspeed is not None:
        return deepspeed_commands.run(said.deepspeed, said.json)
    if said.command == "check":
        return print_check(said.json, said.root, said.all)
    if said.command == "explain":
        return print_explain(said.file, said.device, said.json)
    if said.command == "convert":
        return print_conversion(said.source, said.destination, said.shard_bytes, said.json)
    if said.command == "stage":
        return stage_commands.run(said)
    return checkpoint_commands.run(said)


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["run"]:  # All arguments, options too, are those of `penstock run`.
            launcher.run(words[1:])
        if words and words[0] in launcher.TOOLS:
            complain(launcher.of_the_tool(words[0]))
            return 2
        code = run(parse(words))
        terminal.flush()
        return code
    except BrokenPipeError:
        terminal.stop_output()
        return 0
    except KeyboardInterrupt:
        complain("interrupted")
        return 128 + signal.SIGINT
    except (OSError, ValueError, ImportError, MemoryError) as error:
        complain(str(error))
        return 1


if __name__ == "__main__":
    terminal.show_all_else()
    sys.exit(main())
