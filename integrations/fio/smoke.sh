#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# fio's engine libcufile on our library: fio's own checksums are the proof that the bytes are right.
#
#     smoke.sh --library LIBCUFILE [--directory DIR]
#
# FIO names the fio to run; it must be built with --enable-libcufile (README.md tells how).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=integrations/common/arguments.sh
. "$here/../common/arguments.sh"

[ "${PENSTOCK_DEVICE:-}" != host ] || skip fio "this client needs a GPU"
fio=${FIO:-fio}
command -v "$fio" >/dev/null || skip fio "no fio here: name one in FIO"
export LD_PRELOAD=$library
"$fio" --version >"$scratch/version" 2>"$scratch/why" || skip fio "$fio does not start: $(tail -n 1 "$scratch/why")"
grep -q '^[[:space:]]*libcufile$' <<<"$("$fio" --enghelp)" || skip fio "$fio was not built with --enable-libcufile"

failures=0
checks=0

# move NAME OPTION...
move() {
  local name=$1 result=0
  shift
  checks=$((checks + 1))
  "$fio" --name="$name" --ioengine=libcufile --thread --gpu_dev_ids=0 --cuda_io=cufile --directory="$scratch" \
    --size=16m --verify=crc32c --verify_fatal=1 --verify_state_save=0 --group_reporting \
    --output="$scratch/output" "$@" >"$scratch/errors" 2>&1 || result=$?
  # fio reads back what it wrote: as many bytes as written, without an error.
  if [ $result -eq 0 ] && grep -q 'err= 0' "$scratch/output" && ! grep -qi 'verify failed' "$scratch/output"; then
    echo "ok     $name: $(grep -E '^ *(READ|WRITE):' "$scratch/output" | sed -E 's/^ +//; s/ \(.*//' | paste -sd ' ')"
  else
    failures=$((failures + 1))
    echo "WRONG  $name: fio ended with $result"
    tail -n 12 "$scratch/output" "$scratch/errors"
  fi
}

move write-and-verify --rw=write --bs=1m --direct=1
move random-write-and-verify --rw=randwrite --bs=4k --direct=1
move page-cache --rw=randwrite --bs=64k --direct=0
move odd-blocks --rw=write --bs=12345 --size=4m --direct=0 --bs_unaligned=1
move four-jobs --rw=randwrite --bs=256k --direct=1 --numjobs=4 --gpu_dev_ids=0:0:0:0
move read-only --rw=read --bs=1m --direct=1 --verify=0

# The library that fio had: the loader's own word, since fio is gone.
LD_TRACE_LOADED_OBJECTS=1 "$fio" >"$scratch/libraries"
checks=$((checks + 1))
if grep -qF "$library" "$scratch/libraries" && [ "$(grep -c libcufile "$scratch/libraries")" = 1 ]; then
  echo "ok     one libcufile is loaded, ours: $library"
else
  failures=$((failures + 1))
  echo "WRONG  not our library:" && grep libcufile "$scratch/libraries"
fi

version=$(<"$scratch/version")
if [ $failures -gt 0 ]; then
  echo "FAILED fio $version: $failures of $checks checks"
  exit 1
fi
echo "OK fio ${version#fio-}: $checks checks"
