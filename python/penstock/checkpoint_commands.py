# SPDX-License-Identifier: Apache-2.0

"""python -m penstock checkpoint: verify, latest, retain, drain."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.terminal import complain, positive, progress_shown, say_result

EPILOG = """Examples:
  python -m penstock checkpoint verify checkpoints/step-100
  python -m penstock checkpoint latest checkpoints          its folder; exit code 77 where there is none
  python -m penstock checkpoint retain checkpoints --keep 3
  python -m penstock checkpoint drain /local/step-100 --to /shared/checkpoints
Exit codes: 0 done, 1 failed, 2 wrong usage, 77 latest finds none: a script may begin anew."""


def add_to(commands: Any) -> None:
    """commands: the result of argparse's add_subparsers()."""
    parser = commands.add_parser("checkpoint", help="check checkpoints, find the newest, remove old ones, copy them",
                                 description="Checkpoints that penstock.checkpoint has saved.", epilog=EPILOG,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    verify = actions.add_parser("verify", help="read all of a checkpoint and compare every checksum",
                                description="Notes in its folder that it is good, for retain.")
    verify.add_argument("folder", metavar="FOLDER")
    latest = actions.add_parser("latest", help="print the newest whole checkpoint among the folders in one")
    latest.add_argument("root", metavar="ROOT")
    retain = actions.add_parser("retain", help="remove all but the newest checkpoints",
                                description="The newest that was verified is never removed.")
    retain.add_argument("root", metavar="ROOT")
    retain.add_argument("--keep", type=positive, required=True, metavar="N", help="how many stay")
    drain = actions.add_parser("drain", help="copy a checkpoint to shared storage, checked on the way",
                               description="It becomes visible there once it is whole. Files that are there already "
                               "are kept: after a failure, run the command again.")
    drain.add_argument("folders", nargs="+", metavar="FOLDER", help="the checkpoint's, or those of all nodes that "
                       "saved it to drives of their own")
    drain.add_argument("--to", required=True, metavar="ROOT", help="where it gets a folder of its own name")
    for each in (verify, latest, retain, drain):
        each.add_argument("--json", action="store_true", help="print JSON")


def run(said: argparse.Namespace) -> int:
    """Raises the errors of penstock.checkpoint."""
    from penstock import checkpoint

    if said.action == "verify":
        with progress_shown("verified") as show:
            done = checkpoint.verify(said.folder, on_progress=show)
        return say_result(said.json, {"folder": said.folder, "names": done.names, "bytes": done.nbytes},
                          f"{said.folder}: {done.names} tensors and objects, {done.nbytes} bytes: every checksum is "
                          "right")
    if said.action == "latest":
        found = checkpoint.latest(said.root)
        if found is None:
            complain(f"{said.root}: no whole checkpoint is among the folders in it")
            return 77
        return say_result(said.json, {"folder": str(found)}, str(found))
    if said.action == "retain":
        gone = [str(each) for each in checkpoint.retain(said.root, said.keep)]
        lines = [f"removed {each}" for each in gone] or ["removed nothing"]
        return say_result(said.json, {"removed": gone}, *lines)
    with progress_shown("copied") as show:
        target = checkpoint.drain(said.folders, said.to, on_progress=show)
    return say_result(said.json, {"folder": str(target)}, f"{target} is whole, checked and on the disk")
