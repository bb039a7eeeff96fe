// Copies a file through GPU memory, into a file that appears under its name only when it is whole.
//
//   copy FROM TO
//
// On a machine without a GPU, host memory stands in for one.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <penstock/penstock.hpp>
#include <string>

constexpr std::uint64_t kWindowBytes = 64 << 20;

static int failed(const std::string& what) {
  std::fprintf(stderr, "copy: %s\n", what.c_str());
  return 1;
}

// A window of device memory at a time. A read that ends early is one at the end of the file.
static int copy(const penstock::File& from, const penstock::File& to, const penstock::DeviceMemory& window) {
  std::uint64_t done = 0;
  std::string path = "none";
  while (true) {
    const auto at = static_cast<std::int64_t>(done);
    const penstock::Outcome read = from.read(window.data(), window.size(), at);
    if (!read.ok()) return failed(read.status.message());
    if (read.report.bytes == 0) break;
    const penstock::Outcome written = to.write(window.data(), read.report.bytes, at);
    if (!written.ok()) return failed(written.status.message());
    done += read.report.bytes;
    path = read.report.path_name();
  }
  if (const auto status = to.publish(); !status.ok()) return failed(status.message());
  std::printf("%llu bytes, read by path %s\n", static_cast<unsigned long long>(done), path.c_str());
  return 0;
}

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return failed("usage: copy FROM TO"), 2;
  const int fd = open(arguments[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(std::string(arguments[1]) + ": " + std::strerror(errno));
  auto session = penstock::Session::open();
  if (!session) return failed(session.error().message());
  auto from = session->file(fd);
  if (!from) return failed(from.error().message());
  auto to = session->create(arguments[2], 0666, 0);
  if (!to) return failed(to.error().message());
  auto window = session->allocate(0, kWindowBytes);
  return window ? copy(*from, *to, *window) : failed(window.error().message());
}
