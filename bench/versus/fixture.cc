// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "bench/versus/failure.h"

namespace penstock::versus {
namespace {

constexpr std::size_t kPinnedMax = std::size_t{256} << 20;
constexpr std::size_t kCompareStep = std::size_t{16} << 20;  // Step of comparing bytes, which fits the CPU's caches.
constexpr int kNoUdevRecord = 5027;                          // NVIDIA's error for a missing udev record.

// Reads with pread(2), without the library.
void read_exactly(int fd, char* to, std::size_t size, std::uint64_t offset) {
  if (::pread(fd, to, size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size)) {
    throw Failure("the file is shorter than " + std::to_string(offset + size) + " bytes");
  }
}

template <typename Visit>
void in_steps(std::size_t size, Visit visit) {
  for (std::size_t at = 0; at < size; at += kCompareStep) visit(at, std::min(kCompareStep, size - at));
}

[[noreturn]] void refused(const Calls& calls, const std::string& file, const CUfileError_t& error) {
  if (error.err == kNoUdevRecord && !calls.is_penstock()) {
    throw Failure(calls.name + " refuses " + file +
                      " (5027): there is no udev record of the disk under it; "
                      "docs/internals/performance.md shows how to write one",
                  kNotApplicable);
  }
  throw Failure(calls.name + ": cuFileHandleRegister of " + file + " says " + std::to_string(error.err));
}

}  // namespace

core::UniqueFd open_plainly(const std::string& file) {
  core::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail_errno(file, "open it");
  return fd;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Handle::Handle(const Calls& calls, const std::string& file, int flags)
    : calls_(calls), fd_(::open(file.c_str(), flags | O_CLOEXEC, 0644)) {
  if (fd() < 0) fail_errno(file, (flags & O_DIRECT) != 0 ? "open it with O_DIRECT" : "open it");
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = fd();
  if (const CUfileError_t error = calls.register_handle(&handle_, &descr); error.err != CU_FILE_SUCCESS)
    refused(calls, file, error);
}

Handle::~Handle() { calls_.deregister_handle(handle_); }

Registration::Registration(const Calls& calls, const char* memory, std::size_t size) : calls_(calls), memory_(memory) {
  if (const CUfileError_t error = calls.register_buffer(memory, size, 0); error.err != CU_FILE_SUCCESS) {
    std::fprintf(stderr, "versus: %s: cuFileBufRegister says %d; unregistered memory is used\n", calls.name.c_str(),
                 static_cast<int>(error.err));
    memory_ = nullptr;
  }
}

Registration::~Registration() {
  if (memory_ != nullptr) calls_.deregister_buffer(memory_);
}

Fixture::Fixture(const Calls& calls, Gpu& gpu, std::size_t memory_bytes, const Sample& driver_open)
    : calls_(calls), gpu_(gpu), memory_(gpu.allocate(memory_bytes)), pinned_size_(std::min(memory_bytes, kPinnedMax)),
      pinned_(gpu.allocate_pinned(pinned_size_)), driver_open_(driver_open) {
  std::memset(pinned_, 1, pinned_size_);
}

const Handle* Fixture::kept(const std::string& file) const {
  const auto found = kept_.find(file);
  return found == kept_.end() ? nullptr : &found->second;
}

void Fixture::load(const std::string& file, std::size_t size) {
  const core::UniqueFd source = open_plainly(file);
  in_steps(size, [&](std::size_t at, std::size_t step) {
    read_exactly(source.get(), pinned_, step, at);
    gpu_.to_device(memory_ + at, pinned_, step);
  });
}

void Fixture::spoil(std::size_t size) {
  std::memset(pinned_, 0xee, kCompareStep);
  in_steps(size, [&](std::size_t at, std::size_t step) { gpu_.to_device(memory_ + at, pinned_, step); });
}

void Fixture::compare(const std::string& file, std::size_t size) const { compare(file, size, gpu_, memory_); }

void Fixture::compare(const std::string& file, std::size_t size, const Gpu& gpu, const char* device) const {
  const core::UniqueFd source = open_plainly(file);
  in_steps(size, [&](std::size_t at, std::size_t step) { compare(source.get(), at, device + at, step, gpu); });
}

void Fixture::compare(int fd, std::uint64_t offset, const char* device, std::size_t size) const {
  compare(fd, offset, device, size, gpu_);
}

void Fixture::compare(int fd, std::uint64_t offset, const char* device, std::size_t size, const Gpu& gpu) const {
  std::vector<char> expected(size), arrived(size);
  read_exactly(fd, expected.data(), size, offset);
  gpu.to_host(arrived.data(), device, size);
  if (expected != arrived) throw Failure(calls_.name + ": wrong bytes at offset " + std::to_string(offset));
}

Stopwatch::Stopwatch(const Gate& gate) {
  gate();
  sample_.cpu = -cpu_seconds();
  sample_.begin = now();
}

Sample Stopwatch::sample(std::uint64_t bytes, std::uint64_t operations) {
  sample_.cpu += cpu_seconds();
  sample_.bytes = bytes;
  sample_.operations = operations;
  return sample_;
}

void expect(const Calls& calls, ssize_t moved, std::size_t wanted) {
  if (moved == static_cast<ssize_t>(wanted)) return;
  throw Failure(calls.name + ": moved " + std::to_string(moved) + " of " + std::to_string(wanted) + " bytes, errno " +
                std::to_string(errno));
}

}  // namespace penstock::versus
