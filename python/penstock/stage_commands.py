# SPDX-License-Identifier: Apache-2.0

"""python -m penstock stage."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.terminal import complain, positive, progress_shown, say_result

PART_BYTES = 64 << 20
PARALLEL = 8

EPILOG = """Examples:
  python -m penstock stage s3://bucket/model /local/model
  python -m penstock stage 's3://bucket/data/*.npy' --to /drive0/data --to /drive1/data --gpu 0
  python -m penstock stage /shared/model /local/model --dry-run     what would be fetched, and whether it fits
  python -m penstock stage --check /local/model                     every byte, against the manifest
If a run was interrupted or killed, the same command resumes it.
Exit codes: 0 done, 1 failed, 2 wrong usage, 77 if where the GPU is makes no difference here, 130 interrupted."""


def add_to(commands: Any) -> None:
    """commands: the result of argparse's add_subparsers()."""
    parser = commands.add_parser("stage", help="bring files from an object store or a shared file system onto local "
                                 "drives, checked and laid out for direct reads", epilog=EPILOG,
                                 description="A file gets its name when it is whole, checked and flushed. The folder's "
                                 "manifest, penstock-stage.json, has all sizes and checksums.",
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="SRC... DST", help="files, folders with all that is below them, or "
                        "patterns: local paths, or URLs that fsspec knows (s3://, https://, file://); and the folder "
                        "that they go to. A file that was there is replaced")
    parser.add_argument("--to", action="append", default=[], metavar="DIR", help="a folder that they go to, in place "
                        "of DST; of several each gets a share")
    parser.add_argument("--gpu", type=int, metavar="N", help="of the folders take those nearest to this GPU")
    parser.add_argument("--parallel", type=positive, default=PARALLEL, metavar="N",
                        help="how many parts are fetched at a time [%(default)s]")
    parser.add_argument("--part-bytes", type=positive, default=PART_BYTES, metavar="N", help="the bytes of one part, a "
                        "multiple of 4096; so much memory is needed, times --parallel [%(default)s]")
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True, help="read each part back "
                        "from the drive and compare it with what was fetched [yes]")
    parser.add_argument("--page-cache", action="store_true", help="leave the files in the page cache, too")
    parser.add_argument("--check", action="store_true", help="fetch nothing: compare the staged files of the folders "
                        "with their manifests")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be fetched, and whether it fits")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(usage_of=parser)


def run(said: argparse.Namespace) -> int:
    """Raises the errors of penstock.stage."""
    from penstock.stage.failures import NotApplicableError

    if said.check:
        if not (folders := said.words + said.to):
            said.usage_of.error("--check: which folder? Give `stage --check DST`")
        return _check(folders, said)
    sources, folders = (said.words, said.to) if said.to else (said.words[:-1], said.words[-1:])
    if not sources or not folders:
        said.usage_of.error("a source and a folder are wanted: SRC... DST, or SRC... --to DIR")
    if said.gpu is not None and said.gpu < 0:
        said.usage_of.error(f"--gpu {said.gpu}: GPUs are counted from 0")
    try:
        if said.dry_run:
            return _plan(sources, folders, said)
        return _stage(sources, folders, said)
    except NotApplicableError as error:
        complain(str(error))
        return 77
    except KeyboardInterrupt:
        complain("interrupted: what is on the drives stays there; run the same command again to resume")
        return 130


def _stage(sources: list[str], folders: list[str], said: argparse.Namespace) -> int:
    from penstock import stage

    with progress_shown("staged") as show:
        done = stage.stage(sources, folders, gpu=said.gpu, parallel=said.parallel, part_bytes=said.part_bytes,
                           verify=said.verify, page_cache=said.page_cache, on_progress=show)
    document = {"files": {name: str(path) for name, path in done.files.items()}, "bytes": done.nbytes,
                "fetched_bytes": done.fetched, "skipped_files": done.skipped}
    return say_result(said.json, document,
                      f"{len(done.files)} files, {done.nbytes} bytes, are whole, checked and on the drives; "
                      f"{done.fetched} bytes were fetched, {done.skipped} files were there")


def _plan(sources: list[str], folders: list[str], said: argparse.Namespace) -> int:
    from penstock import stage

    found = stage.plan(sources, folders, gpu=said.gpu, part_bytes=said.part_bytes)
    lines = [f"  {path}: {found.fetched[name]} bytes" for name, path in found.files.items() if name in found.fetched]
    lines.append(f"{len(found.fetched)} of {len(found.files)} files would be fetched, {found.nbytes} bytes")
    lines += [f"{room.folder}: {room.needed} bytes are needed, {room.free} are free"
              f"{'' if room.needed <= room.free else ': that does not fit'}" for room in found.rooms]
    rooms = [{"folder": str(room.folder), "needed": room.needed, "free": room.free} for room in found.rooms]
    say_result(said.json, {"files": {name: str(path) for name, path in found.files.items()}, "fetched": found.fetched,
                           "bytes": found.nbytes, "fits": found.fits, "rooms": rooms}, *lines)
    return 0 if found.fits else 1


def _check(folders: list[str], said: argparse.Namespace) -> int:
    from penstock import stage

    with progress_shown("checked") as show:
        done = stage.check(folders, parallel=said.parallel, on_progress=show)
    if not said.json:
        for path, why in done.bad.items():
            complain(f"{path}: {why}")
    outcome = (f"{len(done.bad)} are damaged: run the stage command again, which fetches those that changed; remove "
               "the others first" if done.bad else "every checksum is right")
    say_result(said.json, {"files": done.files, "bytes": done.nbytes, "bad": done.bad},
               f"{done.files} files, {done.nbytes} bytes: {outcome}")
    return 1 if done.bad else 0
