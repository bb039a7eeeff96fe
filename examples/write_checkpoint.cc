// Writes GPU memory to a file that appears under its name only when it is whole and on the disk.
//
//   write_checkpoint FILE MIB
//
// On a machine without a GPU, host memory stands in for one.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <penstock/penstock.hpp>
#include <string>
#include <vector>

namespace {

int failed(const std::string& what) {
  std::fprintf(stderr, "write_checkpoint: %s\n", what.c_str());
  return 1;
}

// With O_DIRECT the bytes go to the drive and leave the page cache alone; some file systems do not take it.
int open_new(const std::string& name) {
  const int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
  const int fd = open(name.c_str(), flags | O_DIRECT, 0666);
  return fd >= 0 || errno != EINVAL ? fd : open(name.c_str(), flags, 0666);
}

// What stands for the weights of a model: device memory with content.
penstock::Result<penstock::DeviceMemory> make_weights(penstock::Session& session, std::size_t size) {
  auto weights = session.allocate(0, size);
  if (!weights) return weights;
  const std::vector<std::byte> content(size, std::byte{42});
  if (const auto status = weights->upload(0, content); !status) return status;
  return weights;
}

int save(penstock::Session& session, const penstock::DeviceMemory& weights, int fd) {
  auto file = session.file(fd);
  if (!file) return failed(file.error().message());
  const penstock::Outcome outcome = session.write(*file, weights.data(), weights.size(), 0);
  if (!outcome) return failed(outcome.status.message());
  std::printf("%llu bytes by path %s, %llu of them around the page cache\n",
              static_cast<unsigned long long>(outcome.report.bytes), outcome.report.path_name(),
              static_cast<unsigned long long>(outcome.report.direct_bytes));
  return 0;
}

// Makes the file durable, then gives it its name in one step, then makes the name durable.
int publish(int fd, const std::string& from, const std::string& to) {
  if (fsync(fd) != 0 || std::rename(from.c_str(), to.c_str()) != 0) return failed(to + ": " + std::strerror(errno));
  const std::size_t slash = to.rfind('/');
  const int folder = open(slash == std::string::npos ? "." : to.substr(0, slash + 1).c_str(), O_RDONLY | O_DIRECTORY);
  const int result = folder < 0 || fsync(folder) != 0 ? failed(to + ": " + std::strerror(errno)) : 0;
  if (folder >= 0) close(folder);
  return result;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return failed("usage: write_checkpoint FILE MIB"), 2;
  const std::string name = arguments[1], unfinished = name + ".unfinished";
  auto session = penstock::Session::open();
  if (!session) return failed(session.error().message());
  auto weights = make_weights(*session, std::strtoull(arguments[2], nullptr, 10) << 20);
  if (!weights) return failed(weights.error().message());
  const int fd = open_new(unfinished);
  if (fd < 0) return failed(unfinished + ": " + std::strerror(errno));
  const int result = save(*session, *weights, fd) != 0 || publish(fd, unfinished, name) != 0 ? 1 : 0;
  if (result != 0) unlink(unfinished.c_str());
  close(fd);
  return result;
}
