// SPDX-License-Identifier: Apache-2.0

#include "simulation/nvfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "simulation/gpu.h"
#include "simulation/machine.h"

namespace penstock::simulation {
namespace {

using core::FakeNvfs;
namespace abi = core::nvfs;

constexpr std::uint64_t kScratchBytes = 4 << 20;
constexpr std::int64_t kInterrupted = 512, kNotSupported = 524;
constexpr std::int64_t kMapErrors[] = {ENOMEM, EINVAL, EBUSY, EIO, kNotSupported};
constexpr std::int64_t kMoveErrors[] = {EIO, EIO, EFAULT, EBUSY, kInterrupted};

// They outlive the destructors of exit().
auto& nodes = *new std::set<int>;
auto& shadows = *new std::set<void*>;

// The number behind a node's name, or -1.
int node_of(const char* name) {
  const std::size_t stem = std::strlen(abi::kNodeStem);
  return std::strncmp(name, abi::kNodeStem, stem) == 0 ? std::atoi(name + stem) : -1;
}

bool open_node(const char* name, int& fd) {
  const int number = node_of(name);
  if (!nvfs().is_there() || number < 0) return false;
  fd = nvfs().fake()->open_node(static_cast<unsigned>(number));
  if (fd >= 0) nodes.insert(fd);
  else errno = -fd, fd = -1;
  return true;
}

void* map_node(void*, int fd, std::size_t size) {
  if (!nodes.contains(fd)) return nullptr;
  int error = 0;
  void* const mapped = nvfs().fake()->map(fd, size, error);
  if (mapped == nullptr) return errno = error, MAP_FAILED;
  shadows.insert(mapped);
  return mapped;
}

bool close_node(int fd) {
  if (nodes.erase(fd) == 0) return false;
  nvfs().fake()->close_node(fd);
  return true;
}

bool control_node(int fd, unsigned long call, void* argument, int& result) {
  if (nodes.empty() || !nodes.contains(fd)) return false;
  scheduler().point(Call::file);
  result = nvfs().fake()->control(fd, call, *static_cast<abi::Argument*>(argument));
  if (testing::Test::HasFailure()) scheduler().fail(nvfs().left_over());
  if (result < 0) errno = -result, result = -1;
  return true;
}

bool (*answer_others)(long number, const long* arguments, long& answer) = nullptr;

bool answer(long number, const long* arguments, long& result) {
  const char* const name = number == SYS_openat2 ? reinterpret_cast<const char*>(arguments[1]) : "";
  const auto is = [&](const char* file) { return std::strcmp(name, file) == 0; };
  const bool is_ours = is(abi::kVersionFile) || is(abi::kModuleVersionFile) || is(abi::kModulesFile) ||
                       is(abi::kStatsFile) || is(abi::kKernelReleaseFile);
  if (is_ours) return result = open_text(nvfs().fake()->text(name)), true;
  return answer_others != nullptr && answer_others(number, arguments, result);
}

}  // namespace

Nvfs& nvfs() {
  static auto* const only = new Nvfs;
  return *only;
}

void Nvfs::plug_in() {
  Random& random = scheduler().random();
  constexpr const char* kVersions[] = {"2.28.4", "2.26.6", "2.24.2", "2.20.5"};
  fake_ = std::make_unique<FakeNvfs>();
  fake_->version = kVersions[random.below(4)];
  fake_->counts = !random.one_in(4);
  constexpr unsigned kRates[] = {0, 0, 200, 40};
  fails_one_in_ = kRates[random.below(4)];
  hooked_blocks_ = random.one_in(8) ? 0 : random.one_in(2) ? random.between(500, 700) : ~std::uint64_t{0};
  is_hooked_in_part_ = random.one_in(2);
  if (random.one_in(3)) {
    fake_->block_size = disk().block_size = 1024;
    fake_->zeros_are_holes = true;
  }
  fake_->is_hooked = [this](std::uint64_t offset) { return is_hooked(offset); };
  fake_->draw_fault = [this](unsigned long call) { return draw_fault(call); };
  fake_->reach = [this](std::uint64_t address, std::uint64_t bytes) { return reach(address, bytes); };
  fake_->write_file = write;
  fake_->answer_later = [](std::function<void()> answer) {
    scheduler().at(scheduler().now() + scheduler().random().between(10'000, 2'000'000), std::move(answer));
  };
  scratch_ = disk().create(kScratchBytes);
  scratch_->be_scratch();
  scratch_fd_ = disk().open(scratch_, true);
  open_device = open_node;
  close_device = close_node;
  map_device = map_node;
  control_device = control_node;
  answer_others = std::exchange(answer_call, answer);
}

FakeNvfs::Fault Nvfs::draw_fault(unsigned long call) {
  Random& random = scheduler().random();
  if (gpu().is_lost()) return {.call = call, .error = EIO};
  if (fails_one_in_ == 0 || !random.one_in(fails_one_in_)) return {};
  ++disk().faults[static_cast<std::size_t>(Fault::refused)];
  if (call == abi::kMap) return {.call = call, .error = kMapErrors[random.below(std::size(kMapErrors))]};
  if (random.one_in(3)) return {.call = call, .at_most = abi::kBlock * random.between(1, 3)};
  return {.call = call, .error = kMoveErrors[random.below(std::size(kMoveErrors))]};
}

bool Nvfs::is_hooked(std::uint64_t offset) {
  if (hooked_blocks_ > 0) return --hooked_blocks_, true;
  return is_hooked_in_part_ && offset / abi::kBlock % 3 == 0;
}

// What is pinned was allocated, and its user may not have freed it.
std::byte* Nvfs::reach(std::uint64_t address, std::uint64_t bytes) {
  if (!gpu().is_reached(address, bytes)) scheduler().fail("nvidia-fs reaches GPU memory that is not allocated");
  moved_ += bytes;
  return gpu().seen(reinterpret_cast<const void*>(address));
}

// What bypasses the module comes from its shadow buffer.
ssize_t Nvfs::write(int fd, const std::byte* from, std::uint64_t bytes, std::int64_t offset, bool is_direct) {
  const Disk::Open* const open = disk().find(fd);
  if (is_direct || open == nullptr) return ::pwrite(fd, from, bytes, offset);
  scheduler().wait(Call::file, nullptr, scheduler().now() + scheduler().random().below(1'000'000));
  open->file->spoil(static_cast<std::uint64_t>(offset), {from, bytes});
  return static_cast<ssize_t>(bytes);
}

const char* Nvfs::left_over() const {
  if (!is_there()) return nullptr;
  if (testing::Test::HasFailure()) return "nvidia-fs was asked as it must not be";
  if (fake_->pinned != 0) return "GPU memory stays pinned by nvidia-fs";
  if (fake_->mappings != 0) return "a shadow buffer of nvidia-fs is left";
  return fake_->open_nodes != 0 ? "a node of nvidia-fs is left open" : nullptr;
}

void Nvfs::forget_parents() { shadows.clear(); }

// A synchronous request ends before its process does.
const char* Nvfs::lost_with_process() const {
  if (!is_there() || fake_->asynchronous == 0) return nullptr;
  return "a process ends with an asynchronous request of nvidia-fs, whose file is freed and whose pin is lost";
}

}  // namespace penstock::simulation

using penstock::simulation::gpu;
using penstock::simulation::nodes;
using penstock::simulation::nvfs;
using penstock::simulation::shadows;

extern "C" {

int munmap(void* memory, std::size_t size) noexcept {
  static const auto really = REAL(munmap);
  if (gpu().is_there() && !gpu().is_lost() && gpu().has_pinned(memory, size))
    penstock::simulation::scheduler().fail("memory is unmapped that the GPU's driver has page-locked");
  if (penstock::simulation::unmap_device != nullptr) penstock::simulation::unmap_device(memory);
  if (shadows.empty() || shadows.erase(memory) == 0) return really(memory, size);
  nvfs().fake()->unmap(static_cast<std::byte*>(memory), size);
  return 0;
}

}  // extern "C"
