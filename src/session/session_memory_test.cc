// SPDX-License-Identifier: Apache-2.0

// A session judges buffers, requests and pieces by what its devices tell of their memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "session/session.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kPlace = 0x100000, kSize = 0x10000;

// Offers whatever is registered to storage.
class OfferingDevice final : public HostDevice {
 public:
  OfferingDevice() : HostDevice(0, "host") {}
  std::uint64_t offer(const PointerFacts&, const void* buffer, std::size_t) override {
    offered.push_back(buffer);
    return offers ? 0x7000'0000 : 0;
  }
  void withdraw(const void* buffer) override { std::erase(offered, buffer); }

  bool offers = true;
  std::vector<const void*> offered;
};

// Describes the places that a test lists, and takes all other addresses for host memory.
class ListedDevices final : public DeviceSet {
 public:
  unsigned count() const override { return 2; }
  Result<Device*> device(unsigned place) override { return &devices[place]; }
  PointerFacts describe(const void* pointer) override {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    const auto found = std::ranges::find_if(
        places, [&](const PointerFacts& place) { return at - place.base < std::max(place.size, kSize); });
    return found == places.end() ? PointerFacts{} : *found;
  }
  Result<StreamHome*> stream_home(void*) override { return failure(Code::unsupported, "use the stream"); }

  OfferingDevice devices[2];
  std::vector<PointerFacts> places;
};

class SessionMemoryTest : public testing::Test {
 protected:
  SessionMemoryTest() {
    auto devices = std::make_unique<ListedDevices>();
    devices_ = devices.get();
    session_ = std::make_unique<Session>(test_config(), std::make_unique<FakeStorage>(), std::move(devices));
    file_ = session_->register_file(FakeStorage::kUserFd).value();
  }
  static void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }
  // Memory of a device, as the driver tells it, at the nth of the places.
  PointerFacts memory(unsigned place, Device* device) const {
    return {.kind = MemoryKind::device, .device = device, .base = kPlace * (place + 1), .size = kSize};
  }
  Status admit(const RawRequest& request) {
    const PinnedFile file(*session_, request.file);
    RoutedRequest admitted;
    return session_->admit(request, file.get(), admitted);
  }

  ListedDevices* devices_ = nullptr;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
};

TEST_F(SessionMemoryTest, ABufferLiesInItsAllocationWhereTheDriverTellsItsSize) {
  OfferingDevice* const device = &devices_->devices[0];
  PointerFacts managed = memory(1, device), unsized_facts = memory(2, device);
  managed.kind = MemoryKind::managed;
  unsized_facts.size = 0;
  devices_->places = {memory(0, device), managed, unsized_facts, memory(3, nullptr)};
  struct Row {
    const char* name;
    std::uintptr_t address;
    std::uint64_t size;
    bool fits, is_offered;
  };
  const Row rows[] = {{"all of an allocation", kPlace, kSize, true, true},
                      {"one byte more", kPlace, kSize + 1, false, false},
                      {"from its middle over its end", kPlace + 100, kSize - 99, false, false},
                      {"managed memory, which is offered to nobody", 2 * kPlace, kSize, true, false},
                      {"more of that than there is", 2 * kPlace, kSize + 1, false, false},
                      {"an allocation of unknown size", 3 * kPlace, 2 * kSize, true, true},
                      {"memory of a GPU that nobody can use", 4 * kPlace, kSize, true, false},
                      {"host memory, whose ranges only the kernel knows", 9 * kPlace, kSize, true, false}};
  for (const Row& row : rows) {
    const Status status = session_->register_buffer(at(row.address), row.size);

    EXPECT_EQ(status.ok(), row.fits) << row.name << ": " << describe(status);
    EXPECT_EQ(status.is(Code::past_allocation), !row.fits) << row.name;
    EXPECT_EQ(device->offered.size(), row.is_offered ? 1u : 0u) << row.name;
    EXPECT_EQ(session_->deregister_buffer(at(row.address)).ok(), row.fits) << row.name;
    EXPECT_TRUE(device->offered.empty()) << row.name;
  }
}

TEST_F(SessionMemoryTest, WhatIsOfferedAndCannotBeRegisteredIsWithdrawn) {
  PointerFacts first = memory(0, &devices_->devices[0]);
  first.base = 0;
  devices_->places = {first};
  EXPECT_TRUE(session_->register_buffer(at(1), 100).is(Code::invalid_argument)) << "no buffer lies there";
  EXPECT_TRUE(devices_->devices[0].offered.empty());
}

TEST_F(SessionMemoryTest, ARequestThatCannotBeIsRefusedBeforeAPathIsAsked) {
  char bytes[100] = {};
  devices_->places = {memory(0, nullptr), memory(1, &devices_->devices[0])};
  struct Row {
    const char* name;
    RawRequest request;
    Code code;
  };
  const Row rows[] = {{"no memory", {Op::read, file_, nullptr, 1, 0, 0}, Code::invalid_argument},
                      {"before the file", {Op::read, file_, bytes, 1, -1, 0}, Code::negative_offset},
                      {"before the memory", {Op::read, file_, bytes, 1, 0, -1}, Code::negative_offset},
                      {"past the last offset", {Op::read, file_, bytes, 2, INT64_MAX - 1, 0}, Code::invalid_argument},
                      {"a GPU that nobody can use", {Op::read, file_, at(kPlace), 1, 0, 0}, Code::no_device},
                      {"past an allocation", {Op::read, file_, at(2 * kPlace), kSize, 0, 1}, Code::past_allocation}};
  for (const Row& row : rows) {
    const Status status = admit(row.request);
    EXPECT_TRUE(status.is(row.code)) << row.name << ": " << describe(status);
  }
  EXPECT_TRUE(admit({Op::read, file_, bytes, 1, INT64_MAX - 1, 0}).ok());
  EXPECT_TRUE(admit({Op::read, file_, at(2 * kPlace), kSize - 1, 0, 1}).ok());
}

// Pieces go as one request only where they are like the first one, since one path moves them all.
TEST_F(SessionMemoryTest, PiecesOfOneKindOfMemoryAreOneRequest) {
  Device* const one = &devices_->devices[0];
  PointerFacts mapped = memory(2, one), managed = memory(3, one), fresh = memory(4, one);
  mapped.mapped = 0x7000'0000;
  managed.kind = MemoryKind::managed;
  fresh.is_fresh = true;
  devices_->places = {memory(0, one), memory(1, &devices_->devices[1]), mapped, managed, fresh, memory(5, one)};
  devices_->devices[0].offers = false;
  ASSERT_TRUE(session_->register_buffer(at(kPlace + 0x8000), 0x100).ok());
  const auto piece = [](unsigned place, std::uint64_t offset, std::uint64_t size) {
    return MemoryPiece{at(kPlace * (place + 1) + offset), size};
  };
  struct Row {
    const char* name;
    std::vector<MemoryPiece> pieces;
    bool is_one;
  };
  const Row rows[] = {{"of one allocation", {piece(0, 0, 100), piece(0, 5000, 100)}, true},
                      {"of two allocations of a device", {piece(0, 0, 100), piece(5, 0, 100)}, true},
                      {"an empty one anywhere", {piece(0, 0, 100), {nullptr, 0}}, true},
                      {"within a registered buffer", {piece(0, 0, 100), piece(0, 0x8000, 0x100)}, true},
                      {"beyond a registered buffer", {piece(0, 0, 100), piece(0, 0x8000, 0x101)}, false},
                      {"over an allocation's end", {piece(0, 0, 100), piece(0, kSize - 50, 100)}, false},
                      {"of another device", {piece(0, 0, 100), piece(1, 0, 100)}, false},
                      {"of another kind", {piece(0, 0, 100), piece(3, 0, 100)}, false},
                      {"of memory that storage reaches", {piece(0, 0, 100), piece(2, 0, 100)}, false}};
  for (const Row& row : rows) {
    PointerFacts facts = memory(0, one);
    EXPECT_EQ(session_->is_all_of(facts, {Op::read, file_}, row.pieces), row.is_one) << row.name;
  }
  PointerFacts facts = fresh;
  ASSERT_TRUE(session_->is_all_of(facts, {Op::read, file_}, std::vector{piece(4, 0, 10), piece(4, 50, 10)}));
  EXPECT_TRUE(facts.is_fresh);
  ASSERT_TRUE(session_->is_all_of(facts, {Op::read, file_}, std::vector{piece(4, 0, 10), piece(0, 0, 10)}));
  EXPECT_FALSE(facts.is_fresh) << "the driver was not asked about all of them";
}

}  // namespace
}  // namespace penstock::core
