// SPDX-License-Identifier: Apache-2.0

// Batches as a state machine: the input decides what is submitted, held up, spoilt, reaped, canceled and closed, and a
// model says what must come of it. Threads take part, so one input does not always take the same way; what is checked
// holds on every way.
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"
#include "frontend/transfer.h"
#include "fuzz/batch_fixture.h"

namespace penstock::fuzz {
namespace {

using namespace core;

constexpr unsigned kStepsMax = 60;
constexpr unsigned kEntriesMax = 80;
constexpr unsigned kBatchesMax = 4;
constexpr unsigned kRoomMax = 16;
constexpr std::uint64_t kBytesMax = 3u << 20;  // Of all requests together.

// What the model knows of an entry that was accepted and not reported.
struct Expected {
  QueuedRequest entry;
  char* memory = nullptr;  // Its slot; null where no byte may move.
  std::uint64_t bytes = 0;
  bool fails = false;
};

struct Open {
  std::uint64_t number = 0;
  unsigned capacity = 0;
  std::map<std::uint64_t, Expected> outstanding;  // By cookie.
};

char* host_memory() {
  static char* const memory = static_cast<char*>(std::calloc(1, kArenaBytes));
  return memory;
}

class Fixture {
 public:
  explicit Fixture(Decisions& decisions) : decisions_(decisions), host_(host_memory()) {
    auto storage = std::make_unique<FuzzStorage>();
    storage_ = storage.get();
    storage->open_flags = decisions_.one_of({O_RDWR, O_RDWR | O_DIRECT, O_RDONLY, O_WRONLY});
    storage->seed = decisions_.number<std::uint8_t>();
    storage->resident = decisions_.yes();
    storage->reopen_fails = spoilt_ = decisions_.below(4) == 3;
    const char* const direct = decisions_.one_of({"auto", "always", "never"});
    Config config = test_config({{"bounce_mib", "64"},
                                 {"chunk_kib", decisions_.one_of({"64", "256"})},
                                 {"workers", decisions_.one_of({"1", "2", "3"})},
                                 {"direct_io", direct}});
    config.cached_unaligned_writes = decisions_.yes();
    readable_ = storage->open_flags != O_WRONLY;
    writable_ = storage->open_flags != O_RDONLY;
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    frontends_ = std::make_unique<Frontends>(*session_);
    device_ = std::make_unique<Arena>(
        static_cast<char*>(session_->devices().device(1).value()->memory().allocate(kArenaBytes).value()));
    file_ = session_->register_file(FakeStorage::kUserFd).value();
  }

  ~Fixture() {
    storage_->let_go();
    if (decisions_.yes()) {
      while (!open_.empty()) close(open_.size() - 1);
      device_->check_gaps();
    }
    frontends_.reset();
    session_.reset();  // Closes what is open.
    host_.check_gaps();
    check_and_restore_file();
    host_.clear();
  }

  void step() {
    switch (decisions_.below(16)) {
      case 0: return open_batch();
      case 1:
      case 2:
      case 3:
      case 4: return with_batch([&](Open& batch) { submit(batch); });
      case 5:
      case 6:
      case 7: return with_batch([&](Open& batch) { reap(batch); });
      case 8: return with_batch([&](Open& batch) { cancel(batch); });
      case 9: return open_.empty() ? void() : close(decisions_.below(static_cast<std::uint32_t>(open_.size())));
      case 10: return register_again();
      case 11: return spoil();
      case 12: return storage_->hold();
      case 13: return storage_->let_go();
      case 14: return try_odd_numbers();
      case 15: return with_batch([&](Open& batch) { use_from_two_threads(batch); });
    }
  }

 private:
  template <typename Action>
  void with_batch(Action action) {
    if (open_.empty()) open_batch();
    if (!open_.empty()) action(open_[decisions_.below(static_cast<std::uint32_t>(open_.size()))]);
  }

  void open_batch() {
    const unsigned capacity = decisions_.one_of({0u, 1u, 2u, 5u, 16u, 64u, 256u, 5000u});
    if (open_.size() == kBatchesMax) return;
    const Result<std::uint64_t> number = frontends_->open_batch(capacity);
    FUZZ_CHECK(number.ok() == (capacity > 0));
    if (number.ok()) open_.push_back({*number, capacity, {}});
  }

  // ---- Submitting.

  std::uint64_t size() {
    const std::uint64_t wanted = decisions_.one_of(
        {0u, 1u, 511u, 512u, 4096u, 5000u, 65536u, 131072u, 131073u, 200000u, 1u << 20, (2u << 20) + 77});
    if (wanted > kBytesMax - bytes_) return 0;
    bytes_ += wanted;
    return wanted;
  }

  // The file's slot and the memory's of an entry that ought to go well.
  void make_sane(Expected& one, Op op, bool device) {
    RawRequest& request = one.entry.request;
    const std::uint64_t wanted = size();
    const std::size_t gap = decisions_.one_of({0u, 1u, 512u, 4096u});
    std::uint64_t offset = decisions_.number<std::uint32_t>() % (kReadBytes - wanted + 1);
    if (decisions_.yes()) offset = offset / 4096 * 4096;
    if (op == Op::write) {
      if (wanted + gap > kWriteBytes - written_) return;
      offset = kReadBytes + written_ + gap;
      written_ += gap + wanted;
      writes_.emplace_back(offset, wanted);
    }
    char* const memory = (device ? *device_ : host_).take(wanted, gap);
    if (memory == nullptr) return;
    std::memset(memory, kUnread, wanted);
    for (std::size_t i = 0; op == Op::write && i < wanted; ++i) memory[i] = pattern(~(offset + i));
    const std::int64_t back = decisions_.one_of({0, 1, 4096});
    request = {op, file_, memory, wanted, static_cast<std::int64_t>(offset), 0};
    if (!device && memory - host_memory() >= back) {  // A device's base must lie in its allocation all the same.
      request.base = memory - back;
      request.buffer_offset = back;
    }
    one.memory = memory;
    one.bytes = wanted;
  }

  // Requests that must fail, without a look at memory.
  void make_odd(Expected& one) {
    RawRequest& request = one.entry.request;
    request = {Op::read, file_, host_memory(), 512, 0, 0};
    one.fails = true;
    switch (decisions_.below(8)) {
      case 0: request.file_offset = -1; break;
      case 1: request.buffer_offset = INT64_MIN; break;
      case 2: request.base = nullptr; break;
      case 3: request.size = UINT64_MAX; break;
      case 4: request.file = decisions_.number<std::uint64_t>() | 1u << 19; break;
      case 5: request.file_offset = INT64_MAX; break;
      case 6:
        request.buffer_offset = INT64_MAX;
        request.size = UINT64_MAX / 2 + 2;
        break;
      case 7: one.entry.refused = failure(Code::unsupported, "carry out an entry of the batch"); break;
    }
  }

  Expected make_entry() {
    Expected one;
    const unsigned kind = decisions_.below(8);
    const Op op = kind % 2 == 0 ? Op::read : Op::write;
    one.entry.request = {op, file_, host_memory(), 0, 0, 0};
    if (kind < 6) {
      make_sane(one, op, kind / 2 == 1);
      one.fails = op == Op::read ? !readable_ : !writable_;
    } else if (kind == 6) {
      one.entry.request = {Op::read, file_, host_memory(), 4096, std::int64_t{1} << 40, 0};  // Far past the end.
      one.fails = !readable_;
    } else {
      make_odd(one);
    }
    one.fails |= file_ == 0;
    one.entry.cookie = ++cookies_;
    one.entry.began = cookies_ * 3;
    return one;
  }

  std::vector<Expected> make_entries() {
    std::vector<Expected> all;
    const unsigned count = std::min(decisions_.below(12), kEntriesMax - std::min(entries_, kEntriesMax));
    entries_ += count;
    while (all.size() < count) all.push_back(make_entry());
    return all;
  }

  // The caller's array ends with the call.
  static Status submit_to(ThreadedQueue& batch, const std::vector<Expected>& all) {
    std::vector<QueuedRequest> entries;
    for (const Expected& one : all) entries.push_back(one.entry);
    return batch.submit(entries);
  }

  void submit(Open& batch) {
    const std::vector<Expected> all = make_entries();
    const Status status = submit_to(*frontends_->pin_batch(batch.number), all);
    frontends_->unpin_batch(batch.number);
    FUZZ_CHECK(status.ok() || status.is(Code::limit));
    FUZZ_CHECK(status.ok() == (all.size() <= batch.capacity - batch.outstanding.size()));
    if (status.ok()) accept(batch, all);
  }

  static void accept(Open& batch, const std::vector<Expected>& all) {
    for (const Expected& one : all) batch.outstanding[one.entry.cookie] = one;
  }

  // ---- Reaping.

  void reap(Open& batch) {
    const unsigned room = decisions_.below(kRoomMax + 1);
    const unsigned least = decisions_.one_of({0u, 1u, 3u, kRoomMax, UINT_MAX});
    const unsigned patience = decisions_.below(3);
    ThreadedQueue::Deadline deadline;
    if (patience == 0) deadline = std::chrono::steady_clock::time_point{};
    if (patience == 1) deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
    if (!deadline) storage_->let_go();
    std::vector<QueueEvent> events(room);
    const unsigned count = frontends_->pin_batch(batch.number)->reap(events, least, deadline);
    frontends_->unpin_batch(batch.number);
    const auto most = static_cast<unsigned>(std::min<std::size_t>(room, batch.outstanding.size()));
    FUZZ_CHECK(count <= most);
    FUZZ_CHECK(deadline || count >= std::min(least, most));
    for (unsigned i = 0; i < count; ++i) take_in(batch, events[i]);
  }

  void take_in(Open& batch, const QueueEvent& event) {
    const auto found = batch.outstanding.find(event.entry.cookie);
    FUZZ_CHECK(found != batch.outstanding.end());  // Once, and in the batch that it was submitted to.
    const Expected one = found->second;
    batch.outstanding.erase(found);
    FUZZ_CHECK(event.entry.began == one.entry.began);
    FUZZ_CHECK(event.entry.request.base == one.entry.request.base);
    FUZZ_CHECK(event.entry.request.size == one.entry.request.size);
    const Status& status = event.outcome.status;
    const std::uint64_t bytes = event.outcome.report.bytes;
    FUZZ_CHECK(bytes <= one.bytes && event.outcome.report.direct_bytes <= bytes);
    if (one.fails) {
      FUZZ_CHECK(!status.ok() && bytes == 0);
      check_untouched(one, 0);
    } else if (!spoilt_) {
      FUZZ_CHECK(status.ok() && bytes == one.bytes);
    }
    if (status.ok()) check_moved(one, bytes);
  }

  void check_untouched(const Expected& one, std::uint64_t from) const {
    for (std::uint64_t i = from; one.memory != nullptr && i < one.bytes; ++i) {
      const auto at = static_cast<std::size_t>(one.entry.request.file_offset) + i;
      if (one.entry.request.op == Op::read) FUZZ_CHECK(one.memory[i] == kUnread);
      else FUZZ_CHECK(storage_->content[at] == pattern(at));
    }
  }

  void check_moved(const Expected& one, std::uint64_t bytes) const {
    if (one.memory == nullptr) return;
    const auto offset = static_cast<std::size_t>(one.entry.request.file_offset);
    FUZZ_CHECK(std::memcmp(one.memory, storage_->content.data() + offset, bytes) == 0);
    if (!spoilt_) check_untouched(one, bytes);
  }

  // ---- The rest.

  // Nothing of it is reported any more.
  void cancel(Open& batch) {
    storage_->let_go();
    frontends_->pin_batch(batch.number)->cancel();
    frontends_->unpin_batch(batch.number);
    batch.outstanding.clear();
  }

  void close(std::size_t index) {
    storage_->let_go();
    FUZZ_CHECK(frontends_->close_batch(open_[index].number));
    FUZZ_CHECK(!frontends_->close_batch(open_[index].number));
    FUZZ_CHECK(frontends_->pin_batch(open_[index].number) == nullptr);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  // What was submitted before, and has not begun, finds its file gone.
  void register_again() {
    storage_->let_go();
    if (file_ != 0) FUZZ_CHECK(session_->deregister_file(file_).ok());
    if (file_ != 0) spoilt_ = true;
    file_ = decisions_.yes() ? 0 : session_->register_file(FakeStorage::kUserFd).value();
  }

  void spoil() {
    spoilt_ = true;
    const int error = decisions_.one_of({0, 0, EIO, EINTR, EAGAIN, ENOSPC, EINVAL, EOPNOTSUPP});
    storage_->spoil({error, decisions_.one_of<std::size_t>({0, 1, 511, 512, 4096, 70000})});
  }

  void try_odd_numbers() {
    const auto number = decisions_.number<std::uint64_t>();
    for (const Open& batch : open_) {
      if (batch.number == number) return;
    }
    FUZZ_CHECK(frontends_->pin_batch(number) == nullptr);
    FUZZ_CHECK(!frontends_->close_batch(number));
  }

  // A second thread reaps, waiting for what is there, while this one submits, cancels, closes.
  void use_from_two_threads(Open& batch) {
    storage_->let_go();
    const unsigned least = decisions_.below(4);
    const unsigned deed = decisions_.below(4);
    const std::vector<Expected> all = make_entries();
    std::vector<QueueEvent> events(kRoomMax);
    unsigned reaped = 0;
    ThreadedQueue* const reaper = frontends_->pin_batch(batch.number);
    std::thread thread([&] {
      reaped = reaper->reap(events, least, std::nullopt);
      frontends_->unpin_batch(batch.number);
    });
    bool accepted = false;
    if (deed < 3) {
      const Status status = submit_to(*frontends_->pin_batch(batch.number), all);
      frontends_->unpin_batch(batch.number);
      accepted = status.ok();
      FUZZ_CHECK(accepted || (status.is(Code::limit) && all.size() > batch.capacity - batch.outstanding.size()));
      FUZZ_CHECK(!accepted || all.size() <= batch.capacity);
    }
    if (accepted) accept(batch, all);
    if (deed == 1) {
      frontends_->pin_batch(batch.number)->cancel();
      frontends_->unpin_batch(batch.number);
    }
    if (deed > 1) FUZZ_CHECK(frontends_->close_batch(batch.number));
    thread.join();
    FUZZ_CHECK(reaped <= batch.outstanding.size());
    for (unsigned i = 0; i < reaped; ++i) take_in(batch, events[i]);
    if (deed == 1) batch.outstanding.clear();
    if (deed > 1) std::erase_if(open_, [&](const Open& one) { return &one == &batch; });
  }

  // Nothing was written outside of the slots of writes.
  void check_and_restore_file() {
    std::vector<char>& content = FuzzStorage::spare();
    const std::vector<char>& pristine = pristine_content();
    FUZZ_CHECK(content.size() == pristine.size());
    for (const auto& [offset, size] : writes_) {
      std::copy_n(pristine.begin() + static_cast<std::ptrdiff_t>(offset), size,
                  content.begin() + static_cast<std::ptrdiff_t>(offset));
    }
    FUZZ_CHECK(std::memcmp(content.data(), pristine.data(), content.size()) == 0);
  }

  Decisions& decisions_;
  FuzzStorage* storage_ = nullptr;
  Arena host_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::unique_ptr<Arena> device_;
  std::uint64_t file_ = 0;  // 0: none.
  bool readable_ = true;
  bool writable_ = true;
  bool spoilt_ = false;  // Requests may fail or be cut short now.
  std::vector<Open> open_;
  std::vector<std::pair<std::size_t, std::size_t>> writes_;  // Offset and size.
  std::size_t written_ = 0;
  std::uint64_t bytes_ = 0;
  unsigned entries_ = 0;
  std::uint64_t cookies_ = 0;
};

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::Decisions decisions(data, size);
  penstock::fuzz::Fixture fixture(decisions);
  for (unsigned i = 0; i < penstock::fuzz::kStepsMax && !decisions.over(); ++i) fixture.step();
  return 0;
}
