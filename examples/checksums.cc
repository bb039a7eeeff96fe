// Writes GPU memory with checksums that the GPU makes, reads it back, and compares them. No CPU looks at the bytes.
//
//   checksums FILE MIB          the checksums behind the bytes: one file, one write
//   checksums FILE MIB apart    the checksums in FILE.crc32c, by a second write
//
// On a machine without a GPU, host memory stands in for one.
//
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <penstock/penstock.hpp>
#include <string>
#include <vector>

constexpr std::uint64_t kPieceBytes = 16u << 20;  // What one checksum covers.

struct Part {  // Of the device memory, and the file that it goes to.
  std::string name;
  std::uint64_t offset, size;
};

static int failed(const std::string& what) {
  std::fprintf(stderr, "checksums: %s\n", what.c_str());
  return 1;
}

static penstock::Status write(penstock::Session& session, const penstock::DeviceMemory& memory, const Part& part) {
  auto file = session.create(part.name.c_str(), 0666, PENSTOCK_CREATE_REPLACE | PENSTOCK_CREATE_DIRECT);
  if (!file) return file.error();
  const penstock::Outcome outcome = file->write(memory.data() + part.offset, part.size, 0);
  return outcome.ok() ? file->publish() : outcome.status;
}

static penstock::Status read(penstock::Session& session, const penstock::DeviceMemory& memory, const Part& part) {
  const int fd = ::open(part.name.c_str(), O_RDONLY | O_CLOEXEC);
  auto file = session.file(fd);  // With a descriptor of its own.
  ::close(fd);
  return file ? file->read(memory.data() + part.offset, part.size, 0).status : file.error();
}

int main(int argument_count, char** arguments) {
  const bool apart = argument_count == 4 && std::string(arguments[3]) == "apart";
  if (argument_count != 3 && !apart) return failed("usage: checksums FILE MIB [apart]"), 2;
  const std::string name = arguments[1];
  const std::uint64_t payload = std::strtoull(arguments[2], nullptr, 10) << 20;
  std::vector<std::uint32_t> sums((payload + kPieceBytes - 1) / kPieceBytes), written(sums.size());
  const std::uint64_t size = payload + sums.size() * sizeof sums[0];
  std::vector<Part> parts{{name, 0, size}};
  if (apart) parts = {{name, 0, payload}, {name + ".crc32c", payload, size - payload}};

  auto session = penstock::Session::open();
  if (!session) return failed(session.error().message());
  auto memory = session->allocate(0, size);
  if (!memory) return failed(memory.error().message());
  auto status = memory->upload(0, std::vector<char>(payload, 42).data(), payload);
  if (status.ok()) status = session->crc32c(memory->data(), payload, kPieceBytes, sums.data());
  if (status.ok()) status = memory->upload(payload, sums.data(), size - payload);
  for (const Part& part : parts) status = status.ok() ? write(*session, *memory, part) : status;

  for (const Part& part : parts) status = status.ok() ? read(*session, *memory, part) : status;
  if (status.ok()) status = memory->download(payload, written.data(), size - payload);
  if (status.ok()) status = session->crc32c(memory->data(), payload, kPieceBytes, sums.data());
  if (!status.ok()) return failed(status.message());
  if (sums != written) return failed(name + ": a checksum is wrong");
  std::printf("%zu checksums are right\n", sums.size());
}
