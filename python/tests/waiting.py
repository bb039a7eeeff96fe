# SPDX-License-Identifier: Apache-2.0

"""How tests wait: for an event, until it has happened."""

import time

SECONDS_MAX = 600  # Who waits so long hangs, on however busy a machine.


def wait_until(happened, what):
    """What `happened` gives, once that is true."""
    until = time.monotonic() + SECONDS_MAX
    while not (found := happened()):
        assert time.monotonic() < until, f"in {SECONDS_MAX} s there was no {what}"
        time.sleep(0.001)
    return found
