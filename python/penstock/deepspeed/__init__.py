# SPDX-License-Identifier: Apache-2.0

"""What DeepSpeed makes of a configuration as far as files go, and what Penstock would do for it here."""
