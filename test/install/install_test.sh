#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# install_test.sh CMAKE BUILD CONSUMER EXAMPLES VERSION
#
# Installs to a temporary prefix, moves that prefix elsewhere, and builds and runs the programs in consumer/ against it:
# once with pkg-config, once with find_package(penstock); and so a copy of examples/. The installed tool must start from
# there as well, and what was installed is guarded, and has the loader look for no library where anybody can put one.
# With add_subdirectory the same project is only configured: to build it would build the libraries once more.
set -euo pipefail

cmake=$1 build=$2 consumer=$3 examples=$4 version=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install_test: $*" >&2
  exit 1
}

"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || fail "$(cat "$work/log")"
mv "$work/first" "$work/prefix"
prefix=$work/prefix
pkgconfig=$(dirname "$(find "$prefix" -name penstock.pc)")
libraries=$(dirname "$pkgconfig")

python3 -B "$(dirname "$0")/check_elf.py" --built-here "$prefix" >"$work/log" || fail "$(cat "$work/log")"

for name in penstock cufile; do
  [ -L "$libraries/lib$name.so" ] || fail "no link lib$name.so"
done
for soname in "libpenstock.so.${version%.*}" libcufile.so.0; do
  [ -e "$libraries/$soname" ] || fail "no $soname"
done

export PKG_CONFIG_PATH=$pkgconfig
for name in penstock cufile; do
  [ "$(pkg-config --modversion "$name")" = "$version" ] || fail "$name.pc does not say $version"
  read -ra flags <<<"$(pkg-config --cflags --libs "$name")"
  "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -o "$work/uses_$name" "$consumer/uses_$name.c" "${flags[@]}"
  LD_LIBRARY_PATH=$libraries "$work/uses_$name" "$version" || fail "uses_$name, found by pkg-config, failed"
done

"$cmake" -G Ninja -S "$consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 ||
  fail "$(cat "$work/log")"
"$cmake" --build "$work/consumer" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
for program in uses_penstock uses_penstock_hpp uses_cufile; do
  "$work/consumer/$program" "$version" || fail "$program, found by find_package, failed"
done

"$cmake" -G Ninja -S "$consumer" -B "$work/within" -DPENSTOCK_TREE="$(dirname "$examples")" >"$work/log" 2>&1 ||
  fail "in a tree of another project: $(cat "$work/log")"
"$cmake" --build "$work/within" -- -n >"$work/log" 2>&1 || fail "$(cat "$work/log")"
! grep -E 'tools/|_test.dir|bench/' "$work/log" >&2 || fail "more than the libraries is built in a tree of another"

tree=$(dirname "$examples")
if revision=$(git -C "$tree" rev-parse HEAD 2>/dev/null); then  # Of an archive there is nothing to fetch.
  "$cmake" -G Ninja -S "$consumer" -B "$work/fetched" -DPENSTOCK_REPOSITORY="file://$(realpath "$tree")" \
    -DPENSTOCK_TAG="$revision" >"$work/log" 2>&1 || fail "fetched by another project: $(cat "$work/log")"
  "$cmake" --build "$work/fetched" -- -n >"$work/log" 2>&1 || fail "$(cat "$work/log")"
  ! grep -E 'tools/|_test.dir|bench/' "$work/log" >&2 || fail "more than the libraries is built where it is fetched"
fi

cp -r "$examples" "$work/examples"
"$cmake" -G Ninja -S "$work/examples" -B "$work/examples/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 ||
  fail "$(cat "$work/log")"
"$cmake" --build "$work/examples/build" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
PENSTOCK_DEVICE=host "$work/examples/build/read_to_gpu" "$0" >"$work/log" 2>&1 ||
  fail "an example failed: $(cat "$work/log")"

if [ -e "$prefix/bin/penstock" ]; then
  "$prefix/bin/penstock" --help >/dev/null || fail "the installed tool does not start"
  for file in man/man1/penstock-check.1 man/man1/gdsio.1 bash-completion/completions/penstock \
    zsh/site-functions/_gdsio fish/vendor_completions.d/gdscheck.fish \
    doc/penstock/command-line.md doc/penstock/docs/guide/slow.md; do
    [ -e "$prefix/share/$file" ] || fail "no share/$file"
  done
  "$prefix/share/penstock/prove-direct" --help >/dev/null || fail "no share/penstock/prove-direct"
  for name in penstock-k8s penstock-model; do
    [ ! -e "$prefix/bin/$name" ] || "$prefix/bin/$name" --help >/dev/null || fail "the installed $name does not start"
  done
  for name in gdscheck gdscheck.py gds_install_check gds_stats gdsio gdsio_verify; do
    "$prefix/bin/$name" --help >/dev/null || fail "the installed tool does not start as $name"
  done
fi
