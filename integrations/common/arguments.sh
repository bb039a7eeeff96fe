# SPDX-License-Identifier: Apache-2.0

# Sourced by the smoke tests that are shell scripts: reads --library and --directory as harness.py does.
# Sets `library` and `scratch`, a directory that is removed at the end.
# shellcheck shell=bash

library=""
directory=${TMPDIR:-/tmp}
while [ $# -gt 0 ]; do
  case $1 in
    --library) library=${2:?} && shift 2 ;;
    --directory) directory=${2:?} && shift 2 ;;
    *) echo "usage: $0 --library LIBCUFILE [--directory DIR]" >&2 && exit 2 ;;
  esac
done
[ -f "$library" ] || { echo "$0: --library must name our libcufile.so.0" >&2 && exit 2; }
library=$(realpath "$library")
scratch=$(mktemp -d -p "$directory")
trap 'rm -rf "$scratch"' EXIT

# skip NAME WHY
skip() {
  echo "SKIPPED $1: $2"
  exit 77
}
