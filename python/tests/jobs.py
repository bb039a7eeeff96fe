# SPDX-License-Identifier: Apache-2.0

"""Jobs that train and save, as processes of their own that may kill themselves."""

import signal
import subprocess
import sys

from waiting import SECONDS_MAX


def run_job(job, *said, dies_at):
    """Runs `python JOB SAID... DIES_AT`, and returns the last line that it prints. If it is to die at a step (not 0),
    it has to end by SIGKILL, and nothing is returned."""
    done = subprocess.run([sys.executable, "-B", str(job), *map(str, said), str(dies_at)], capture_output=True,
                          text=True, timeout=SECONDS_MAX)
    assert done.returncode == (-signal.SIGKILL if dies_at else 0), done.stderr
    return done.stdout.splitlines()[-1] if not dies_at else None
