# SPDX-License-Identifier: Apache-2.0

"""Files from an object store or a shared file system onto local drives, whole, checked and laid out for direct reads.

    from penstock import stage
    stage.stage(["s3://bucket/model"], ["/local/model"])

A file comes in parts. When a part is on the drive, it is written down with its checksum: what was killed goes on there
when it is called again. A file gets its name when it is whole, checked and flushed.
"""

from penstock.stage.failures import StageError
from penstock.stage.names import MANIFEST
from penstock.stage.planning import Plan, plan
from penstock.stage.run import Checked, Staged, check, stage

__all__ = ["MANIFEST", "Checked", "Plan", "StageError", "Staged", "check", "plan", "stage"]
