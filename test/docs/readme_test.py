#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""README's commands, and those of the guide to its installation, one after the other in one shell, in one clean clone:
readme_test.py BUILD

It builds what ./dev demo builds, with the options of the developers' build, of which a cache has all
(stand_ins/ccache). So it shows what is built and installed, and not how an optimised build runs: each path moves
32 MiB, which take it as long as a gibibyte takes an optimised one.
"""

import sys
import tempfile
from pathlib import Path

import chain
import markdown

PAGES = ["README.md", "docs/guide/install.md"]


def main():
    build = Path(sys.argv[1]).resolve()
    if not chain.can_clone():
        print("skipped: this tree is no git repository, or git is not installed: no clean clone can be made")
        return chain.SKIPPED
    commands = [command for name in PAGES
                for command in chain.commands_of(markdown.Page(chain.ROOT, chain.ROOT / name))]
    chain.tell_not_run(commands)
    with tempfile.TemporaryDirectory(dir=build) as name:
        folder = Path(name)
        clone, home = chain.clean_clone(folder / "clone"), folder / "home"
        home.mkdir()
        env = chain.environment(home, [clone / "build/release/tools", chain.STAND_INS])
        failures, _ = chain.run_chain(commands, clone, {**env, "PENSTOCK_JOBS": "2"},
                                      {"/opt/penstock": folder / "prefix", "./dev demo ": "./dev demo --size 32M "})
        for program in (folder / "prefix/bin/penstock", folder / "prefix/lib/libcufile.so.0",
                        home / "penstock/share/bash-completion/completions/penstock"):
            if not program.exists():
                failures.append(f"{program} was not installed")
    print("\n".join(failures))
    ran = sum(command.reason is None for command in commands)
    print(f"{ran} commands and blocks of them were run, {len(failures)} are wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
