// SPDX-License-Identifier: Apache-2.0

#include "simulation/vendor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "simulation/files.h"
#include "simulation/gpu.h"
#include "simulation/machine.h"
#include "simulation/nvfs.h"

namespace penstock::simulation {
namespace {

constexpr const char* kNameForm = "/simulated/%d";
constexpr int kNamelessOneIn = 8;
// Words of the stand-in. What it says it has moved and did not, it says from its first call on, or nobody could notice.
constexpr const char* kScripts[] = {"errno", "errno", "negative", "short", "short", "torn", "huge"};
constexpr Nanoseconds kSecond = 1'000'000'000;

bool (*open_others)(const char* name, int& fd) = nullptr;

bool has_name(const File& file) { return file.descriptor() % kNamelessOneIn != 0; }

std::shared_ptr<File> file_of(const char* name) {
  int descriptor = -1;
  if (!vendor().is_there() || std::sscanf(name, kNameForm, &descriptor) != 1) return nullptr;
  return disk().find_by_descriptor(descriptor);
}

bool open_by_name(const char* name, int& fd) {
  if (const std::shared_ptr<File> file = file_of(name)) {
    fd = disk().open(file, false);
    return disk().keep(fd, {file, false, true}), true;
  }
  return open_others != nullptr && open_others(name, fd);
}

}  // namespace

Vendor& vendor() {
  static auto* const only = new Vendor;
  return *only;
}

const char* Vendor::library() { return PENSTOCK_FAKE_VENDOR; }

void Vendor::plug_in() {
  if (::access(library(), R_OK) != 0) scheduler().fail("the stand-in of NVIDIA's library is not where it was built");
  Random& random = scheduler().random();
  constexpr const char* kNatures[] = {"direct", "direct", "direct", "short", "compat", "wrong", "closed", "already"};
  constexpr unsigned kRates[] = {0, 0, 100, 12};
  nature_ = kNatures[random.below(std::size(kNatures))];
  fails_one_in_ = kRates[random.below(4)];
  if (!random.one_in(4)) nvfs().scratch_file().be_calm(100), calm_ = random.between(60, 400);
  open_others = std::exchange(open_device, open_by_name);
  is_there_ = true;
}

const char* Vendor::draw_script(bool is_write) {
  Random& random = scheduler().random();
  if (gpu().is_lost()) return "negative";
  if (calm_ > 0) return --calm_, nature_;
  if (fails_one_in_ == 0 || !random.one_in(fails_one_in_)) return nature_;
  ++disk().faults[static_cast<std::size_t>(Fault::refused)];
  return is_write && random.one_in(8) ? "idle" : kScripts[random.below(std::size(kScripts))];
}

// A call that moves no bytes has this. Its script may replace that of a call that waits: none moves once the GPU is
// lost.
const char* Vendor::draw_nature() const {
  if (gpu().is_lost()) return "negative";
  const bool may_refuse = calm_ == 0 && fails_one_in_ != 0;
  return may_refuse && scheduler().random().one_in(fails_one_in_) ? "refusing" : nature_;
}

void* Vendor::enter(const char* call, void* memory, std::size_t size) {
  Random& random = scheduler().random();
  ++stuck_;
  scheduler().point(Call::file);
  if (calm_ == 0 && fails_one_in_ != 0 && random.one_in(200)) {
    ++disk().faults[static_cast<std::size_t>(Fault::stalled)];
    scheduler().wait(Call::file, nullptr, scheduler().now() + random.between(1, 60) * kSecond);
  }
  if (size > 0 && gpu().owns(reinterpret_cast<std::uintptr_t>(memory)) &&
      !gpu().is_reached(reinterpret_cast<std::uintptr_t>(memory), size))
    scheduler().fail("NVIDIA's library is to use GPU memory that is not allocated, or not any more");
  const bool is_write = std::strcmp(call, "write") == 0;
  const char* const script = size == 0 ? draw_nature() : draw_script(is_write);
  ::setenv("FAKE_VENDOR", script, 1);
  asked_ += size;
  const bool is_counted = std::strcmp(script, "direct") == 0 || std::strcmp(script, "short") == 0;
  if (size > 0 && is_counted) nvfs().fake()->count_request(is_write);
  return gpu().seen(memory);
}

bool Vendor::are_more_alive(unsigned others) const {
  for (unsigned i = 0; is_there() && i < 100 && scheduler().tasks_alive() > others + stuck_; ++i)
    scheduler().wait(Call::program, nullptr, scheduler().now() + kSecond);
  return scheduler().tasks_alive() > others + stuck_;
}

void Vendor::stay() {
  ++stuck_;
  for (;;) scheduler().wait(Call::sleep, nullptr);
}

}  // namespace penstock::simulation

using namespace penstock::simulation;

extern "C" {

// The stand-in asks it.
[[gnu::visibility("default")]] void* fake_vendor_enter(const char* call, void* memory, std::size_t size) {
  return vendor().enter(call, memory, size);
}

[[gnu::visibility("default")]] void fake_vendor_leave() { vendor().leave(); }

// Where a call of it comes back to that was given up.
int pause() {
  static const auto really = REAL(pause);
  return scheduler().is_on() ? vendor().stay(), -1 : really();
}

ssize_t readlink(const char* name, char* text, std::size_t size) noexcept {
  static const auto really = REAL(readlink);
  int fd = -1;
  const bool is_fd = vendor().is_there() && std::sscanf(name, "/proc/self/fd/%d", &fd) == 1;
  const Disk::Open* const open = is_fd ? disk().find(fd) : nullptr;
  if (open == nullptr || !has_name(*open->file)) return really(name, text, size);
  char own[64];
  const int length = std::snprintf(own, sizeof own, kNameForm, open->file->descriptor());
  const std::size_t told = std::min<std::size_t>(size, static_cast<std::size_t>(length));
  std::memcpy(text, own, told);
  return static_cast<ssize_t>(told);
}
ssize_t __readlink_chk(const char* name, char* text, std::size_t size, std::size_t) noexcept {
  return readlink(name, text, size);
}

int stat(const char* name, struct stat* facts) noexcept {
  static const auto really = REAL(stat);
  if (is_of_machine(name)) return errno = ENOENT, -1;
  const std::shared_ptr<File> file = file_of(name);
  return file == nullptr ? really(name, facts) : (file->tell(*facts), 0);
}

}  // extern "C"
