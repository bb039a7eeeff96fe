# SPDX-License-Identifier: Apache-2.0

"""Copies files from an object store or a shared file system to local drives, whole, checked and laid out for direct
reads.

    from penstock import stage
    stage.stage(["s3://bucket/model"], ["/local/model"])

A file is fetched in parts. A part on the drive is recorded with its checksum, so that a killed run continues there when
called again. A file gets its name when it is whole, checked and flushed.
"""

from penstock.stage.failures import StageError
from penstock.stage.names import MANIFEST
from penstock.stage.planning import Plan, plan
from penstock.stage.run import Checked, Staged, check, stage

__all__ = ["MANIFEST", "Checked", "Plan", "StageError", "Staged", "check", "plan", "stage"]
