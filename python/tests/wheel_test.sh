#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# wheel_test.sh PYTHON SOURCE WORK
#
# Builds an archive of sources, from that two wheels, without a network: one where CLI11 is missing, which lacks the
# command penstock and says so, and one with all that this machine has. Installs each into a new environment and uses
# it, far from the tree. Built with the flags of the tests' own build, so that a compiler cache serves.
set -euo pipefail

python=$1 source=$2 work=$3/wheel
. "$source/python/tests/compiler_cache.sh"
fail() {
  echo "wheel_test: $*" >&2
  exit 1
}
if ! "$python" -c 'import scikit_build_core, nanobind' 2>/dev/null; then
  echo "skipped: scikit-build-core or nanobind is missing"
  exit 77
fi
rm -rf "$work"
mkdir -p "$work/dist" "$work/apart"

(cd "$source" && "$python" -c 'import scikit_build_core.build as build, sys; print(build.build_sdist(sys.argv[1]))' \
  "$work/dist") >"$work/log" 2>&1 || fail "the archive of sources: $(tail -n 20 "$work/log")"
tar -xf "$work"/dist/penstock-*.tar.gz -C "$work/apart"
sources=("$work/apart"/penstock-*)
serve_from_the_tests_build "${sources[0]}"
for unwanted in build .git docs/internals; do
  [ ! -e "${sources[0]}/$unwanted" ] || fail "the archive of sources has $unwanted in it"
done

build_wheel() {
  rm -f "$work"/dist/*.whl
  "$python" -m pip wheel -v --no-build-isolation --no-deps --no-index -w "$work/dist" "${preset[@]}" \
    -Cbuild-dir="$build" "$@" "${sources[0]}" >"$work/log" 2>&1 ||
    fail "the wheel: $(tail -n 40 "$work/log")"
  rm -rf "$work/venv"
  "$python" -m venv --without-pip "$work/venv"
  "$python" -m pip --python "$work/venv/bin/python" install -q --no-index "$work"/dist/penstock-*.whl
}

build_wheel -Ccmake.define.CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON
grep -q 'command penstock is left out' "$work/log" || fail "the build does not say that the tool is left out"
[ ! -e "$work/venv/bin/penstock" ] || fail "there is a tool without CLI11"
(cd / && PATH=/nowhere "$work/venv/bin/python" -m penstock bench x >"$work/log" 2>&1) &&
  fail "python -m penstock bench does without the tool"
grep -q 'CLI11 and fmt' "$work/log" || fail "python -m penstock does not say how to get the tool: $(cat "$work/log")"

build_wheel -Ccmake.define.CMAKE_DISABLE_FIND_PACKAGE_CLI11=OFF
packages=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cd /
head -c 1M /dev/urandom >"$work/file"
PENSTOCK_DEVICE=host "$work/venv/bin/python" - "$work/file" <<'PYTHON' || fail "the wheel's package does not move bytes"
import sys
from importlib import metadata
import penstock
from penstock import launcher
assert "/venv/" in penstock.__file__ and "/venv/" in penstock.engine()["library"], penstock.engine()
content, buffer = open(sys.argv[1], "rb").read(), bytearray(1 << 20)
report = penstock.read(sys.argv[1], buffer)
assert bytes(buffer) == content and report.bytes == len(content)
assert launcher.library().exists()
assert metadata.version("penstock") == penstock.__version__ == penstock.engine()["version"]
PYTHON

# The tool, where this machine has what it is built of.
tool=$work/venv/bin/penstock
if [ -e "$tool" ]; then
  [ "$("$work/venv/bin/python" -c 'from penstock import launcher; print(launcher.tool())')" = "$tool" ] ||
    fail "the package does not find its own tool"
  "$tool" check >"$work/log" || fail "penstock check: $(cat "$work/log")"
else
  grep 'command penstock is left out' "$work/log" || fail "the wheel has no tool, and nothing says why"
fi

# The module takes from the system what every Python has, and the libraries nothing but libc and the compiler's.
ordinary='^(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|ld-linux.*)\.so'
for file in "$packages"/penstock/{_native*.so,lib/*}; do
  needed=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE "$ordinary" || true)
  [ -z "$needed" ] || fail "$file needs $needed"
done
echo "wheel_test: $(ls "$work"/dist/*.whl)"
