// SPDX-License-Identifier: Apache-2.0

// Requests on streams whose call finds no memory at one place after the other.
#include <deque>

#include "base/shortage.h"
#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/short_memory.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/frontends.h"

namespace penstock::core {
namespace {

constexpr std::size_t kMiB = 1u << 20;
constexpr std::int64_t kNothing = 0x5eed;
constexpr long kAllocationsMost = 14;  // More than any of these calls makes.

// Each request has a home and a stream of its own, so that all that they allocate is allocated in its call.
class HomesOfOneCall final : public DeviceSet {
 public:
  unsigned count() const override { return real_.count(); }
  Result<Device*> device(unsigned place) override { return real_.device(place); }
  PointerFacts describe(const void* pointer) override { return real_.describe(pointer); }
  Result<StreamHome*> stream_home(void*) override { return static_cast<StreamHome*>(&homes.back()); }

  std::deque<HostStreamHome> homes;

 private:
  HostDeviceSet real_;
};

void deliver(void* result, const RawRequest&, const Outcome& outcome) {
  *static_cast<std::int64_t*>(result) =
      outcome.status.ok() ? static_cast<std::int64_t>(outcome.report.bytes) : -outcome.status.code;
}

class StreamShortage : public ShortMemoryTest {
 protected:
  StreamShortage() {
    auto storage = std::make_unique<FakeStorage>();
    storage->content.resize(16 * kMiB);
    auto devices = std::make_unique<HomesOfOneCall>();
    devices_ = devices.get();
    session_ = std::make_unique<Session>(test_config({{"workers", "2"}}), std::move(storage), std::move(devices));
    frontends_ = std::make_unique<Frontends>(*session_);
    file_ = session_->register_file(FakeStorage::kUserFd).value();
    memory_ = session_->devices().device(0).value()->memory().allocate(16 * kMiB).value();
  }

  // Submits to a stream that is held, so that its work piles up. Returns the code of the call's error, or of the
  // result's.
  std::int32_t run(Op op, void* memory, std::uint64_t size, long allocations, bool one) {
    HostStreamHome& home = devices_->homes.emplace_back();
    std::uint32_t held = 0;
    EXPECT_TRUE(home.work().wait(this, StreamBlock(), held, 1).ok());
    const std::int64_t offset = 0;
    std::int64_t result = kNothing;
    const StreamParameters parameters{op, file_, memory, &size, &offset, &offset, &result};
    const auto submit = [&] { return frontends_->streams().submit(this, parameters, {deliver, nullptr, nullptr}); };
    const auto exported = [&] {
      return unless_short_of_memory(submit, [] { return failure(Code::out_of_memory, "use the stream"); });
    };
    const Status status = with_allocations(allocations, exported, one);
    home.work().set(held, 1);
    EXPECT_TRUE(home.drain(this).ok());
    // Where nothing can be queued any more, nobody tells when the stream has passed the block.
    EXPECT_TRUE(!one || wait_until([&] { return home.memory().is_quiet(0); })) << "a block was lost";
    if (!status.ok()) return status.code;
    return result == static_cast<std::int64_t>(size) ? 0 : static_cast<std::int32_t>(-result);
  }

  HomesOfOneCall* devices_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::uint64_t file_ = 0;
  void* memory_ = nullptr;
};

// A bad_alloc had left the request's place, its block and its stream behind: the stream waited for ever.
TEST_F(StreamShortage, ACallThatFindsNoMemoryEndsWithAStatusAndHoldsNobodyUp) {
  std::vector<char> host(16 * kMiB);
  unsigned refused = 0;
  for (const Op op : {Op::read, Op::write}) {
    for (void* const memory : {memory_, static_cast<void*>(host.data())}) {
      for (const std::uint64_t size : {std::uint64_t{4096}, 13 * kMiB}) {
        for (const bool one : {true, false}) {
          // The first request allocates memory that others use again.
          ASSERT_EQ(run(op, memory, size, kAllAllocations, one), 0);
          for (long allowed = 0; allowed < kAllocationsMost; ++allowed) {
            const std::int32_t code = run(op, memory, size, allowed, one);
            ASSERT_TRUE(code == 0 || code == static_cast<std::int32_t>(Code::out_of_memory)) << code;
            refused += code == 0 ? 0 : 1;
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 60u) << "blocks, their lists and the stream's work are allocated";
}

}  // namespace
}  // namespace penstock::core
