#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# release_test.sh SOURCE
#
# Libraries and a program with them, built as users get them, are guarded by everything that cmake/hardening.cmake asks
# for. They are those of bench/instructions.py, so that no test builds a release for itself.
set -euo pipefail

source=$1
python3 -B "$source/bench/instructions.py" --build
python3 -B "$source/test/install/check_elf.py" --built-here --optimised "$source/build/instructions"
