# SPDX-License-Identifier: Apache-2.0

"""What cases prepare in a machine, as shell."""

FILL = "peer_probe fill {} 4194304"


def mounted(drive, options=""):
    """Mounts a drive at /mnt/DRIVE; it is named for what it holds."""
    return f"mkdir -p /mnt/{drive} && mount -t {drive.split('-')[0]} {options} /drives/{drive} /mnt/{drive}"


def file_on(kind, options="", name="data"):
    """Mounts the drive `kind` at /mnt/KIND and writes a file of the pattern."""
    return f"{mounted(kind, options)} && {FILL.format(f'/mnt/{kind}/{name}')}"
