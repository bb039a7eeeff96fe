#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Every source has the form that clang-format 14 gives it: others make other forms. Exits 77 where it is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $format || $("$format" --version) != *"version 14."* ]]; then
  echo "skipped: formatting is not checked, clang-format 14 is not installed (package clang-format-14)"
  exit 77
fi
find src include facts kv tools k8s model test bench integrations examples \
  \( -name '*.h' -o -name '*.hpp' -o -name '*.cc' -o -name '*.c' \) \
  -print0 | xargs -0 -n 20 -P "$(nproc)" "$format" --dry-run -Werror ||
  { echo "formatting: $format -i FILE mends a file" && exit 1; }
