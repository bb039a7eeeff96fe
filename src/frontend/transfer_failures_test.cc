// SPDX-License-Identifier: Apache-2.0

// Requests on a device and a storage of which each call is refused once, in every way that a request can be made; and
// what is refused before any of them is asked.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "fakes/fake_storage.h"
#include "fakes/forbidden_calls.h"
#include "fakes/refusing_device.h"
#include "fakes/test_config.h"
#include "frontend/channel_queue.h"
#include "frontend/frontends.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

constexpr std::size_t kFileBytes = 4u << 20;

// The file's bytes at first, and those that are written.
const std::vector<char>& bytes_of(bool written) {
  static const auto make = [](unsigned seed) {
    std::vector<char> bytes(kFileBytes);
    for (std::size_t i = 0; i < kFileBytes; ++i) bytes[i] = static_cast<char>((i + seed) * 2654435761u >> 13);
    return bytes;
  };
  static const std::vector<char> first = make(0), other = make(77);
  return written ? other : first;
}

constexpr std::size_t kBegin = 100;  // Each request begins there in the file.

enum class Way { call, pieces, queue, batch, batch_of_pieces };

struct Asked {
  const char* name;
  Way way;
  Op op;
  std::size_t size;
  int open_flags;
};

// Devices that outlive the session: a copy whose end nobody could wait for lands when the session goes.
class LentDevices final : public DeviceSet {
 public:
  explicit LentDevices(DeviceSet& real) : real_(real) {}
  unsigned count() const override { return real_.count(); }
  Result<Device*> device(unsigned place) override { return real_.device(place); }
  PointerFacts describe(const void* pointer) override { return real_.describe(pointer); }
  Result<StreamHome*> stream_home(void* stream) override { return real_.stream_home(stream); }

 private:
  DeviceSet& real_;
};

class TransferFailures : public testing::TestWithParam<Asked> {
 protected:
  void open() {
    close();
    auto storage = std::make_unique<FakeStorage>();
    storage_ = storage.get();
    storage->open_flags = GetParam().open_flags;
    storage->content = bytes_of(false);
    session_ = std::make_unique<Session>(test_config({{"workers", "2"}}), std::move(storage),
                                         std::make_unique<LentDevices>(devices_));
    frontends_ = std::make_unique<Frontends>(*session_);
    file_ = session_->register_file(FakeStorage::kUserFd).value();
  }
  void close() {
    frontends_.reset();
    session_.reset();
    EXPECT_EQ(refusals_.queues, 0);
    EXPECT_EQ(refusals_.locked, 0);
  }
  ~TransferFailures() override {
    close();
    devices_.device(0).value()->memory().release(memory_);
  }

  // The request from the file's byte 100 on, which is filled anew before a write.
  Outcome move() {
    const Asked& asked = GetParam();
    if (asked.op == Op::write) std::memcpy(memory_, bytes_of(true).data() + kBegin, asked.size);
    else std::memset(memory_, 0, asked.size);
    const RawRequest request{asked.op, file_, memory_, asked.size, kBegin, 0};
    const std::vector<MemoryPiece> pieces = {{memory_, asked.size / 3},
                                             {memory_ + asked.size / 3, asked.size - asked.size / 3}};
    const bool has_pieces = asked.way == Way::pieces || asked.way == Way::batch_of_pieces;
    if (asked.way == Way::call) return transfer(*session_, request);
    if (asked.way == Way::pieces) return transfer_vectored(*session_, request, pieces);
    if (asked.way == Way::queue) return by_queue(request);
    ThreadedQueue queue(frontends_->executor(), 2);
    const QueuedRequest entry{.request = request, .pieces = has_pieces ? pieces : std::span<const MemoryPiece>()};
    EXPECT_TRUE(queue.submit({&entry, 1}).ok());
    QueueEvent event;
    EXPECT_EQ(queue.reap({&event, 1}, 1, std::nullopt), 1u);
    return event.outcome;
  }
  Outcome by_queue(const RawRequest& request) {
    auto queue = std::move(ChannelQueue::open(*session_, 2, 128u << 10).value());
    if (const Status status = queue->submit(request, 7); !status.ok()) return {status, {}};
    QueueCompletion completion;
    EXPECT_EQ(queue->reap({&completion, 1}, 1), 1u);
    return {completion.status, completion.report};
  }
  void expect_moved() {
    const Asked& asked = GetParam();
    const char* const moved = asked.op == Op::write ? storage_->content.data() + kBegin : memory_;
    EXPECT_EQ(std::memcmp(moved, bytes_of(asked.op == Op::write).data() + kBegin, asked.size), 0);
    EXPECT_EQ(storage_->content[kBegin - 1], bytes_of(false)[kBegin - 1]);
    EXPECT_EQ(storage_->content[kBegin + asked.size], bytes_of(false)[kBegin + asked.size]);
  }
  // Refuses call n for every n. refuse(n) has it refused from now on, and was_refused() says whether there was one.
  template <typename Refuse, typename WasRefused>
  int refuse_each(Refuse refuse, WasRefused was_refused, bool (*is_reason)(const Status&)) {
    int failed = 0;
    for (unsigned n = 1; n < 200; ++n) {
      open();
      refuse(n);
      const Outcome outcome = move();
      const bool refused = was_refused();
      refuse(0);
      if (outcome.status.ok()) {
        EXPECT_EQ(outcome.report.bytes, GetParam().size) << "call " << n;
        expect_moved();
      } else {
        ++failed;
        EXPECT_TRUE(refused && is_reason(outcome.status)) << "call " << n << ": " << describe(outcome.status);
        EXPECT_LT(outcome.report.bytes, GetParam().size) << "call " << n;
      }
      const Outcome again = move();
      EXPECT_TRUE(again.status.ok()) << "behind call " << n << ": " << describe(again.status);
      expect_moved();
      if (!refused) return failed;
    }
    ADD_FAILURE() << "it makes ever more calls";
    return failed;
  }

  Refusals refusals_;
  RefusingDevices devices_{refusals_};
  char* const memory_ = static_cast<char*>(devices_.device(0).value()->memory().allocate(kFileBytes).value());
  FakeStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::uint64_t file_ = 0;
};

constexpr std::size_t kSmall = 20'000, kLarge = (3u << 20) + 5;

INSTANTIATE_TEST_SUITE_P(As, TransferFailures,
                         testing::Values(Asked{"ReadByACall", Way::call, Op::read, kSmall, O_RDWR | O_DIRECT},
                                         Asked{"BufferedReadByACall", Way::call, Op::read, kSmall, O_RDWR},
                                         Asked{"WriteByACall", Way::call, Op::write, kSmall, O_RDWR | O_DIRECT},
                                         Asked{"LargeReadByACall", Way::call, Op::read, kLarge, O_RDWR | O_DIRECT},
                                         Asked{"LargeWriteByACall", Way::call, Op::write, kLarge, O_RDWR | O_DIRECT},
                                         Asked{"LargeBufferedWriteByACall", Way::call, Op::write, kLarge, O_RDWR},
                                         Asked{"PiecesByACall", Way::pieces, Op::read, kSmall, O_RDWR | O_DIRECT},
                                         Asked{"ReadByAQueue", Way::queue, Op::read, kSmall, O_RDWR | O_DIRECT},
                                         Asked{"WriteByAQueue", Way::queue, Op::write, kSmall, O_RDWR | O_DIRECT},
                                         Asked{"ReadByABatch", Way::batch, Op::read, kSmall, O_RDWR | O_DIRECT},
                                         Asked{"LargeReadByABatch", Way::batch, Op::read, kLarge, O_RDWR | O_DIRECT},
                                         Asked{"PiecesByABatch", Way::batch_of_pieces, Op::write, kLarge,
                                               O_RDWR | O_DIRECT}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(TransferFailures, ACallOfTheDeviceThatIsRefusedFailsTheRequestAlone) {
  const int failed = refuse_each([&](unsigned n) { refusals_.refuse(n); }, [&] { return refusals_.was_refused(); },
                                 [](const Status& status) { return status.is(Code::device_lost); });
  EXPECT_GE(failed, 1);
}

TEST_P(TransferFailures, ATransferThatStorageRefusesFailsTheRequestAlone) {
  const auto refuse = [&](unsigned n) {
    storage_->faults.assign(n, {});
    if (n > 0) storage_->faults.back().error = EIO;
  };
  const int failed = refuse_each(
      refuse, [&] { return storage_->faults.empty(); }, [](const Status& status) { return status.is_errno(EIO); });
  // A direct read that fails is made once more through the page cache.
  const bool is_made_again = GetParam().op == Op::read && (GetParam().open_flags & O_DIRECT) != 0;
  EXPECT_EQ(failed > 0, !is_made_again);
}

TEST_P(TransferFailures, AFileWhoseDescriptorsAreLostMovesNothing) {
  open();
  storage_->descriptors_lost = true;
  const std::vector<char> before = storage_->content;
  const Outcome outcome = move();
  EXPECT_EQ(outcome.status.code, descriptor_lost().code) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 0u);
  EXPECT_TRUE(storage_->content == before);
}

TEST_P(TransferFailures, AForkedChildMovesNothing) {
  open();
  EXPECT_EQ(in_child([&] {
              const bool has_batches = frontends_->open_batch(2).status().is(Code::closed) &&
                                       frontends_->pin_batch(1) == nullptr && !frontends_->close_batch(1);
              return has_batches &&
                             transfer(*session_, {GetParam().op, file_, memory_, 100, 0, 0}).status.is(Code::closed)
                         ? 0
                         : 1;
            }),
            0);
}

}  // namespace
}  // namespace penstock::core
