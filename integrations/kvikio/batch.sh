#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Builds smoke.cc against the KvikIO that is installed for python3 (its wheels carry headers and library) and our own
# cufile.h, and runs it on our library. With PENSTOCK_KVIKIO_SMOKE=FILE it runs that program, built before.
#
#     batch.sh --library LIBCUFILE [--directory DIR]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=integrations/common/arguments.sh
. "$here/../common/arguments.sh"

name='kvikio (C++)'
site=$(python3 -c 'import importlib.util as u; print(*(list(s.submodule_search_locations)[0] if (s := u.find_spec(n))
       else "-" for n in ("libkvikio", "rapids_logger")))')
read -r kvikio logger <<<"$site"
if [ ! -d "$kvikio" ] || [ ! -d "$logger" ]; then
  skip "$name" "the Python packages libkvikio and rapids_logger are not installed"
fi

program=${PENSTOCK_KVIKIO_SMOKE:-$scratch/build/smoke}
if [ -z "${PENSTOCK_KVIKIO_SMOKE:-}" ]; then
  cuda=${CUDA_HOME:-/usr/local/cuda}/include
  [ -f "$cuda/cuda.h" ] || skip "$name" "no cuda.h under $cuda: name the CUDA toolkit in CUDA_HOME"
  cmake -S "$here" -B "$scratch/build" -DKVIKIO="$kvikio" -DRAPIDS_LOGGER="$logger" -DCUDA_INCLUDE="$cuda" >/dev/null
  cmake --build "$scratch/build" >/dev/null
fi

export LD_LIBRARY_PATH="$kvikio/lib64:$logger/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export KVIKIO_COMPAT_MODE=OFF KVIKIO_GDS_THRESHOLD=1 CUFILE_ENV_PATH_JSON="$here/cufile.json"
LD_PRELOAD=$library "$program" "$library" "$scratch/data"
