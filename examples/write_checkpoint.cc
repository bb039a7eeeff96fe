// Writes GPU memory to a file that appears under its name only when it is whole and on the disk.
//
//   write_checkpoint FILE MIB
//
// On a machine without a GPU, host memory stands in for one.
//
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <penstock/penstock.hpp>
#include <string>
#include <vector>

static int failed(const std::string& what) {
  std::fprintf(stderr, "write_checkpoint: %s\n", what.c_str());
  return 1;
}

// In place of the weights of a model: device memory with content.
static penstock::Result<penstock::DeviceMemory> make_weights(penstock::Session& session, std::uint64_t size) {
  auto weights = session.allocate(0, size);
  if (!weights) return weights;
  const std::vector<char> content(size, 42);
  if (const auto status = weights->upload(0, content.data(), size); !status.ok()) return status;
  return weights;
}

// Until publish() there is no file of this name; a program that is killed leaves what was there before. With O_DIRECT
// the bytes go to the drive and leave the page cache alone, where the file system takes it.
static int save(penstock::Session& session, const penstock::DeviceMemory& weights, const char* name) {
  auto file = session.create(name, 0666, PENSTOCK_CREATE_REPLACE | PENSTOCK_CREATE_DIRECT);
  if (!file) return failed(file.error().message());
  const penstock::Outcome outcome = file->write(weights.data(), weights.size(), 0);
  if (!outcome.ok()) return failed(outcome.status.message());
  if (const auto status = file->publish(); !status.ok()) return failed(status.message());
  std::printf("%llu bytes by path %s, %llu of them around the page cache\n",
              static_cast<unsigned long long>(outcome.report.bytes), outcome.report.path_name(),
              static_cast<unsigned long long>(outcome.report.direct_bytes));
  return 0;
}

int main(int argument_count, char** arguments) {
  if (argument_count != 3) return failed("usage: write_checkpoint FILE MIB"), 2;
  auto session = penstock::Session::open();
  if (!session) return failed(session.error().message());
  auto weights = make_weights(*session, std::strtoull(arguments[2], nullptr, 10) << 20);
  if (!weights) return failed(weights.error().message());
  return save(*session, *weights, arguments[1]);
}
