#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# release_test.sh SOURCE
#
# Libraries and a program with them, built as users get them, are guarded by everything that cmake/hardening.cmake asks
# for, and export what their maps say. They are those of bench/instructions.py, so that no test builds a release for
# itself.
set -euo pipefail

source=$1
python3 -B "$source/bench/instructions.py" --build
python3 -B "$source/test/install/check_elf.py" --built-here --optimised "$source/build/instructions"
rooms=("$source"/build/instructions/src/*/libpenstock_*.a)
python3 -B "$source/test/abi/symbols_test.py" "$source/build/instructions/lib/libcufile.so" \
  "$source/src/cufile/libcufile.map" libcufile.so.0 "${rooms[@]}"
python3 -B "$source/test/abi/symbols_test.py" "$source/build/instructions/lib/libpenstock.so" \
  "$source/src/capi/libpenstock.map" libpenstock.so.0.2 "${rooms[@]}"
