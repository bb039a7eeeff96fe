# SPDX-License-Identifier: Apache-2.0

"""Small JSON files next to checkpoints: published as a whole, and read as untrusted input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.checkpoint.layout import CheckpointError
from penstock.checkpoint.reading import content_of
from penstock.sessions import default_session

NBYTES_MAX = 1 << 16


def publish_note(path: Path, said: dict[str, Any]) -> None:
    """Replaces the file in one step, durably: it has its old contents or all of the new."""
    with default_session().create(path, replace=True) as file:
        file.write(json.dumps(said).encode())


def read_note(path: Path) -> dict[str, Any]:
    """Raises FileNotFoundError, and CheckpointError unless it is a JSON object in a regular file of at most 64 KiB."""
    text = content_of(path, NBYTES_MAX + 1)
    if len(text) > NBYTES_MAX:
        raise CheckpointError(f"{path}: over {NBYTES_MAX} bytes are not accepted")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise CheckpointError(f"{path}: it is no object of JSON: it is damaged, or was written by something else")
    return said
