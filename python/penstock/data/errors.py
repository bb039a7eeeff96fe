# SPDX-License-Identifier: Apache-2.0

"""What penstock.data raises."""

__all__ = ["DataError"]


class DataError(ValueError):
    """Files that are not what the index or the state says, or a state that belongs to other settings."""
