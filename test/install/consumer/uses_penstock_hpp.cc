// SPDX-License-Identifier: Apache-2.0

// Opens a session through the installed C++ header. Where no session can be had, the sentence must say why.
#include <cstdio>
#include <penstock/penstock.hpp>

int main() {
  auto session = penstock::Session::open();
  const std::string said = session ? session->info()->device_kinds : session.error().message();
  std::printf("session: %s\n", said.c_str());
  return said.empty() ? 1 : 0;
}
