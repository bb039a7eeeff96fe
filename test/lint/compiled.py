# SPDX-License-Identifier: Apache-2.0

"""What a build compiles, source by source, also where it makes one object of several."""

import json
import os
import re
from pathlib import Path

# As CMake joins sources, and as cmake/joined_tests.awk joins tests.
JOINED_SOURCE = re.compile(r'^#include "(.*)"', re.MULTILINE)
JOINED_TEST = re.compile(r'^#line 1 "(.*)"$', re.MULTILINE)


def sources_of(file):
    """What is compiled by that name: the file, or those that are joined in it; as they are named there."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return (JOINED_SOURCE if file.parent.name == "Unity" else JOINED_TEST).findall(text) or [str(file)]


def commands_of(build):
    """The command by source, of compile_commands.json in the folder `build`; of two for one source the last."""
    database = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return {Path(os.path.normpath(build / source)): entry["command"]
            for entry in database for source in sources_of(Path(entry["file"]))}
