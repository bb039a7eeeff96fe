#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# wheel_test.sh PYTHON SOURCE WORK
#
# Builds an archive of sources, from that a wheel, without a network; installs the wheel into a new environment and
# moves bytes with it, far from the tree. Built with the flags of the tests' own build, so that a compiler cache serves.
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
"$python" -m pip wheel --no-build-isolation --no-deps --no-index -w "$work/dist" -Ccmake.build-type=Debug \
  -Ccmake.define.PENSTOCK_DEVELOPER=ON -Cbuild-dir="$build" "${sources[0]}" >"$work/log" 2>&1 ||
  fail "the wheel: $(tail -n 40 "$work/log")"

"$python" -m venv --without-pip "$work/venv"
packages=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
"$python" -m zipfile -e "$work"/dist/penstock-*.whl "$packages"
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
# The module takes from the system what every Python has, and the libraries nothing but libc and the compiler's.
ordinary='^(libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|ld-linux.*)\.so'
for file in "$packages"/penstock/{_native*.so,lib/*}; do
  needed=$(readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE "$ordinary" || true)
  [ -z "$needed" ] || fail "$file needs $needed"
done
echo "wheel_test: $(ls "$work"/dist/*.whl)"
