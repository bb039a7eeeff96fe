// SPDX-License-Identifier: Apache-2.0

// NVIDIA's kernel driver without a GPU, behind NvidiaExport's seam: it answers every request like a working driver,
// refuses the step that a test names, records a journal, and tracks live objects of RM and UVM, so that a test sees
// leaks. Requests are told apart by their numbers and bytes.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/cuda/nvidia_export.h"

namespace penstock::core {

using Bytes = std::vector<std::uint8_t>;

// Little-endian: b(4, 7) is 07 00 00 00.
inline Bytes b(std::size_t size, std::uint64_t value) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < std::min<std::size_t>(size, 8); ++i) bytes[i] = static_cast<std::uint8_t>(value >> 8 * i);
  return bytes;
}
inline Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
inline std::uint64_t word(const Bytes& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, size);
  return value;
}

struct Request {
  std::string name;
  int fd = -1;
  unsigned long number = 0;
  Bytes bytes;
  Bytes pointed;  // What an RM request's pointer leads to.
};

class ScriptedKernel final : public NvidiaKernel {
 public:
  static constexpr int kRm = 1000, kUvm = 1001;
  static constexpr nvidia::Handle kClient = 0xc1d00001, kDevice = 0xcaf00002;

  // The named step answers a negated errno or an RM status.
  std::string refusing;
  std::int64_t with = 0;
  // What the export holds.
  nvidia::RmExportInfo info = {.device_instance = 3, .gpu_instance = nvidia::kNoGpuInstance, .objects_max = 4};
  std::vector<std::uint8_t> types = {nvidia::kImportedVideoMemory};
  bool is_590 = false;     // UVM_FREE without a length.
  bool has_grown = false;  // UVM's structures are longer than is known, their status elsewhere.

  std::vector<std::string> journal;
  std::vector<Request> requests;
  std::set<int> open_nodes;
  std::set<nvidia::Handle> objects;
  std::map<std::uint64_t, std::uint64_t> ranges;
  std::set<std::byte*> addresses;

  std::string history() const {
    std::string all;
    for (const std::string& each : journal) all.append(all.empty() ? "" : ", ").append(each);
    return all;
  }
  bool has_nothing() const { return open_nodes.empty() && ranges.empty() && addresses.empty(); }
  const Request& request(const std::string& name) const {
    static const Request none;
    const auto found = std::find_if(requests.begin(), requests.end(), [&](const auto& r) { return r.name == name; });
    return found == requests.end() ? none : *found;
  }

  int open(const char* path) override {
    if (const auto refusal = step(std::string("open ") + path)) return static_cast<int>(*refusal);
    const int fd = std::string(path) == "/dev/nvidiactl" ? kRm : kUvm;
    open_nodes.insert(fd);
    return fd;
  }
  // The driver ends what a descriptor's last holder left: RM its client's objects.
  void close(int fd) override {
    if (open_nodes.erase(fd) == 0) {
      journal.push_back("close the export");
      EXPECT_EQ(::close(fd), 0);
      return;
    }
    journal.push_back(fd == kRm ? "close rm" : "close uvm");
    if (fd == kRm) objects.clear();
  }
  std::byte* reserve(std::size_t size) override {
    if (step("reserve")) return nullptr;
    void* const memory = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    addresses.insert(static_cast<std::byte*>(memory));
    return static_cast<std::byte*>(memory);
  }
  int map_shared(std::byte* address, std::size_t size, int fd) override {
    EXPECT_EQ(fd, kUvm);
    EXPECT_EQ(ranges[reinterpret_cast<std::uintptr_t>(address)], size);
    EXPECT_TRUE(addresses.contains(address));
    const auto refusal = step("map");
    if (!refusal) return ::mprotect(address, size, PROT_READ | PROT_WRITE);
    addresses.erase(address);  // As Linux does.
    ::munmap(address, size);
    return static_cast<int>(*refusal);
  }
  void unmap(std::byte* address, std::size_t size) override {
    journal.push_back("unmap");
    EXPECT_EQ(addresses.erase(address), 1u) << "addresses of somebody else";
    ::munmap(address, size);
  }
  int control(int fd, unsigned long number, void* argument) override {
    Request request = {"", fd, number, {}, {}};
    const std::size_t size = fd == kRm ? _IOC_SIZE(number) : nvidia::kUvmBlockBytes;
    request.bytes.assign(static_cast<std::uint8_t*>(argument), static_cast<std::uint8_t*>(argument) + size);
    const auto point = [&](std::size_t at) {
      const auto* const from = reinterpret_cast<const std::uint8_t*>(word(request.bytes, at, 8));
      if (from != nullptr) request.pointed.assign(from, from + word(request.bytes, at + 8, 4));
    };
    if (fd == kRm && number != nvidia::rm_request<nvidia::RmFree>(nvidia::NV_ESC_RM_FREE)) point(16);
    request.name = name_of(request);
    requests.push_back(request);
    const auto refusal = step(request.name);
    if (refusal && *refusal < 0) return static_cast<int>(*refusal);
    const nvidia::RmStatus status = refusal ? static_cast<nvidia::RmStatus>(*refusal) : nvidia::NV_OK;
    return fd == kRm ? answer_rm(request, argument, status) : answer_uvm(request, argument, status);
  }

 private:
  std::optional<std::int64_t> step(const std::string& name) {
    journal.push_back(name);
    return name == refusing ? std::optional(with) : std::nullopt;
  }

  static std::string name_of(const Request& request) {
    if (request.fd == kUvm) {
      switch (request.number) {
        case 0x30000001: return "initialize";
        case 37: return "register";
        case 78: return "pages";
        case 34: return "free pages";
        default: return "unknown";
      }
    }
    switch (request.number) {
      case 0xc0104629: return "free object";
      case 0xc020462b: return word(request.bytes, 12, 4) == 0x41 ? "client" : "device";
      case 0xc020462a: return word(request.bytes, 8, 4) == 0x3d08 ? "info" : "import";
      default: return "unknown";
    }
  }

  int answer_rm(const Request& request, void* argument, nvidia::RmStatus status) {
    if (request.name == "free object") {
      EXPECT_EQ(objects.erase(static_cast<nvidia::RmFree*>(argument)->object), 1u);
      return static_cast<nvidia::RmFree*>(argument)->status = status, 0;
    }
    if (request.name == "client" || request.name == "device") {
      auto* const alloc = static_cast<nvidia::RmAlloc*>(argument);
      alloc->object = request.name == "client" ? kClient : kDevice;
      return alloc->status = status, 0;
    }
    auto* const control = static_cast<nvidia::RmControl*>(argument);
    control->status = status;
    if (status != nvidia::NV_OK) return 0;
    if (request.name == "info") {
      info.fd = reinterpret_cast<nvidia::RmExportInfo*>(control->parameters)->fd;
      std::memcpy(reinterpret_cast<void*>(control->parameters), &info, sizeof info);
      return 0;
    }
    auto* const import = reinterpret_cast<nvidia::RmImport*>(control->parameters);
    for (std::size_t i = 0; i < types.size(); ++i) {
      import->types[i] = types[i];
      EXPECT_TRUE(types[i] == nvidia::kImportedNothing || objects.insert(import->objects[i]).second);
    }
    return 0;
  }

  int answer_uvm(const Request& request, void* block, nvidia::RmStatus status) {
    if (has_grown) return std::memset(block, 0, 8), std::memset(static_cast<std::byte*>(block) + 280, 0, 8), 0;
    const std::uint64_t base = word(request.bytes, 0, 8);
    const std::uint64_t length = word(request.bytes, 8, 8);
    std::size_t status_at = 12;
    if (request.name == "initialize") status_at = 8;
    if (request.name == "register") status_at = 36;
    if (request.name == "pages") status_at = 52;
    if (request.name == "free pages") status_at = is_590 ? 8 : 16;
    const bool names_memory = request.name == "pages" && word(request.bytes, 48, 4) != 0;
    if (request.name == "pages" && !names_memory && status == nvidia::NV_OK) status = nvidia::NV_ERR_OBJECT_NOT_FOUND;
    if (names_memory && status == nvidia::NV_OK) ranges[base] = length;
    if (request.name == "free pages") {
      EXPECT_TRUE(ranges.contains(base));
      EXPECT_TRUE(is_590 || ranges[base] == length);
      ranges.erase(base);
    }
    std::memcpy(static_cast<std::byte*>(block) + status_at, &status, 4);
    return 0;
  }
};

}  // namespace penstock::core
