#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Runs the smoke tests of all clients that this machine has on our library, and closes with a table.
#
#     run.sh --library LIBCUFILE [--directory DIR] [--timeout SECONDS] [NAME...]
#
# Exits 0 where every test that ran succeeded and one did run, 1 where one failed, 77 where none could run.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

library="" directory=${TMPDIR:-/tmp} limit=120 names=()
while [ $# -gt 0 ]; do
  case $1 in
    --library) library=${2:?} && shift 2 ;;
    --directory) directory=${2:?} && shift 2 ;;
    --timeout) limit=${2:?} && shift 2 ;;
    -*) echo "usage: $0 --library LIBCUFILE [--directory DIR] [--timeout SECONDS] [NAME...]" >&2 && exit 2 ;;
    *) names+=("$1") && shift ;;
  esac
done
[ -f "$library" ] || { echo "$0: --library must name our libcufile.so.0" >&2 && exit 2; }
library=$(realpath "$library")

if [ ${#names[@]} -eq 0 ]; then
  names=(torch cuda_bindings kvikio kvikio/batch.sh fastsafetensors cufile_python lmcache nixl nixl/kv.py cucim fio
    deepspeed)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
table=() passed=0 failed=0

for name in "${names[@]}"; do
  case $name in
    *.sh) start=(bash "$here/$name") ;;
    *.py) start=(python3 "$here/$name") ;;
    fio) start=(bash "$here/fio/smoke.sh") ;;
    *) start=(python3 "$here/$name/smoke.py") ;;
  esac
  echo "=== $name"
  began=$SECONDS
  timeout --kill-after=5 "$limit" "${start[@]}" --library "$library" --directory "$directory" 2>&1 | tee "$log"
  result=${PIPESTATUS[0]}
  case $result in
    0) passed=$((passed + 1)) last=$(grep '^OK ' "$log" | tail -n 1) ;;
    77) last=$(grep '^SKIPPED ' "$log" | tail -n 1) ;;
    124 | 137) failed=$((failed + 1)) last="HUNG for $limit s, after: $(tail -n 1 "$log")" ;;
    *) failed=$((failed + 1)) last=$(grep '^FAILED ' "$log" | tail -n 1) && last=${last:-"CRASHED with $result"} ;;
  esac
  table+=("$(printf '%-16s %4d s  %s' "$name" $((SECONDS - began)) "$last")")
done

echo "=== $library"
printf '%s\n' "${table[@]}"
echo "$passed passed, $failed failed, $((${#names[@]} - passed - failed)) skipped"
if [ $failed -gt 0 ]; then exit 1; fi
if [ $passed -eq 0 ]; then exit 77; fi
