# SPDX-License-Identifier: Apache-2.0

# Several tests as one file, `out`. What is in the anonymous namespace of each goes into one more of its own, so that
# they need not know of each other's names.
FNR == 1 {
  ++number
  printf "#line 1 \"%s\"\n", FILENAME > out
}
/^namespace \{$/ { $0 = "namespace test_" number " { namespace {" }
/^}  \/\/ namespace$/ { $0 = "}}" }
{ print > out }
