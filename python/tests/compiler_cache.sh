# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash

# serve_from_the_tests_build SOURCES
#
# What `./dev` compiled for the tests serves the wheel's build: the same compiler by the same name, and in $build a
# folder that lies in SOURCES as deep as the tests' lies in the tree. $preset has the preset's options, for pip.
serve_from_the_tests_build() {
  export CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL="${PENSTOCK_JOBS:-2}"
  export CCACHE_BASEDIR=$1 CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
  ! command -v ccache >/dev/null || export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
  # shellcheck disable=SC2034  # Used by who reads this file.
  build=$1/build/wheel
  # shellcheck disable=SC2034
  preset=(-Ccmake.build-type=Debug "-Ccmake.define.CMAKE_CXX_FLAGS_DEBUG=-Og -g1 -Wno-maybe-uninitialized"
    -Ccmake.define.PENSTOCK_DEVELOPER=ON -Ccmake.define.PENSTOCK_JOINED=ON)
}
