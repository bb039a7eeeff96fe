#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# No shell script has anything that shellcheck warns of. Exits 77 where it is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! command -v shellcheck >/dev/null; then
  echo "skipped: shell scripts are not checked, shellcheck is not installed (package shellcheck)"
  exit 77
fi
mapfile -t files < <(grep --recursive --files-with-matches --exclude-dir 'build*' --exclude-dir .git \
  '^#!/bin/\(ba\)\?sh$' .)
shellcheck --external-sources --severity=warning "${files[@]}"
