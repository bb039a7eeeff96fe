// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/meter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "tools/common/context.h"
#include "tools/common/cuda_driver.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kReadSize = std::uint64_t{16} << 20;  // The size of each read(2).

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The memory that pieces of files are read into, and the file that is open. One thread uses it.
class Reader {
 public:
  Reader(const Survey& survey, const Variant& variant, Arena arena)
      : survey_(survey), variant_(variant), arena_(std::move(arena)),
        bounce_(variant.session == nullptr ? kReadSize : 0) {}

  void read(const Piece& piece, Tally& tally) {
    if (piece.shard != shard_) open(piece.shard);
    if (variant_.session == nullptr) return read_by_itself(piece);
    const Outcome outcome = file_->read(arena_.data(), piece.size, static_cast<std::int64_t>(piece.offset));
    require(outcome.status, path());
    if (outcome.report.bytes != piece.size) fail_short();
    tally.add(outcome.report, 0);
  }

  // Takes a piece out of the page cache only if it is known that nothing of it was cached before: the pages may belong
  // to others.
  void forget(const Piece& piece) const {
    if (!survey_.is_residency_known) return;
    source_->forget(piece.offset, piece.size);
  }

 private:
  void open(std::size_t shard) {
    file_.reset();
    source_ = std::make_unique<Source>(survey_.shards[shard].path);
    if (variant_.session != nullptr) file_.emplace(source_->open_in(*variant_.session));
    shard_ = shard;
  }

  void read_by_itself(const Piece& piece) {
    for (std::uint64_t done = 0; done < piece.size;) {
      const auto asked = static_cast<std::size_t>(std::min<std::uint64_t>(kReadSize, piece.size - done));
      const std::size_t count = source_->read(std::span(bounce_).first(asked), piece.offset + done);
      if (count == 0) fail_short();
      arena_.upload(done, std::span(bounce_).first(count));
      done += count;
    }
  }

  const std::string& path() const { return source_->path(); }
  [[noreturn]] void fail_short() const { throw Failure(path() + ": it became shorter while it was read"); }

  const Survey& survey_;
  const Variant& variant_;
  Arena arena_;
  std::vector<std::byte> bounce_;
  std::size_t shard_ = ~std::size_t{0};
  std::unique_ptr<Source> source_;
  std::optional<File> file_;
};

// The work of one thread in one turn. Only the time in its requests counts, not the time between them.
struct Done {
  std::uint64_t bytes = 0;
  double busy_seconds = 0;
  Tally tally;

  double rate() const { return static_cast<double>(bytes) / std::max(busy_seconds, 1e-9); }
};

// Hands out the pieces. All variants share it, so that each reads pieces that the others did not, as long as there are
// any.
struct Pieces {
  const std::vector<Piece>& all;
  const bool is_cold;
  std::atomic<std::size_t> next = 0;

  const Piece& take() { return all[next.fetch_add(1) % all.size()]; }
};

// Restores the page cache, however the measurement ends.
struct PageCacheRestorer {
  const Survey& survey;
  const Pieces& pieces;
  ~PageCacheRestorer() {
    if (pieces.is_cold) restore_page_cache(survey, pieces.next);
  }
};

// State that the threads of one turn share.
struct Turn {
  Pieces& pieces;
  const double seconds;
  const std::size_t first = pieces.next;
  const Clock::time_point start = Clock::now();
  std::atomic<bool> stop = false;
  std::mutex mutex = {};
  std::exception_ptr error = nullptr;  // Guarded by the mutex.

  bool goes_on() const {
    if (stop || interrupted()) return false;
    // A few pieces are not read again and again for seconds: it would only measure the drive's own cache.
    return pieces.next - first < pieces.all.size() && seconds_since(start) < seconds;
  }
};

void run(Reader& reader, Turn& turn, Done& done) try {
  do {
    const Piece& piece = turn.pieces.take();
    const Clock::time_point start = Clock::now();
    reader.read(piece, done.tally);
    done.busy_seconds += seconds_since(start);
    done.bytes += piece.size;
    if (turn.pieces.is_cold) reader.forget(piece);
  } while (turn.goes_on());
} catch (...) {
  turn.stop = true;
  const std::lock_guard lock(turn.mutex);
  turn.error = std::current_exception();
}

// The threads of one variant. They outlast its turns: their memory is touched, and the library's allocated, before the
// first turn.
class Team {
 public:
  Team(const Survey& survey, const Variant& variant, const std::function<Arena()>& memory, Pieces& pieces) {
    for (unsigned i = 0; i < variant.threads; ++i) {
      readers_.push_back(std::make_unique<Reader>(survey, variant, memory()));
      const Piece& piece = pieces.take();
      Tally ignored;
      readers_[i]->read(piece, ignored);
      if (pieces.is_cold) readers_[i]->forget(piece);
    }
  }

  void take_turn(Pieces& pieces, double seconds, Rate& rate) {
    Turn turn{pieces, seconds};
    const double cpu_before = cpu_seconds();
    std::vector<Done> done(readers_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < readers_.size(); ++i)
        threads.emplace_back([&, i] { run(*readers_[i], turn, done[i]); });
      run(*readers_[0], turn, done[0]);
    }
    const double wall = seconds_since(turn.start);
    if (turn.error) std::rethrow_exception(turn.error);
    throw_if_interrupted();
    add(done, rate);
    rate.cpus_busy += (cpu_seconds() - cpu_before) / std::max(wall, 1e-9) / kTurns;
  }

 private:
  static void add(const std::vector<Done>& done, Rate& rate) {
    double bytes_per_second = 0, seconds = 0;
    for (const Done& each : done) {
      rate.bytes += each.bytes;
      bytes_per_second += each.rate();
      seconds = std::max(seconds, each.busy_seconds);
      rate.tally.merge(each.tally);
    }
    rate.turns.push_back(bytes_per_second);
    rate.seconds += seconds;
  }

  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace

double Rate::slowest() const { return *std::min_element(turns.begin(), turns.end()); }
double Rate::fastest() const { return *std::max_element(turns.begin(), turns.end()); }

void Rate::settle() {
  double inverse = 0;  // All turns last equally long, so the average time of a byte counts.
  for (const double turn : turns) inverse += 1 / std::max(turn, 1e-9) / static_cast<double>(turns.size());
  bytes_per_second = 1 / inverse;
}

void raise_to(Rate& part, const Rate& whole) {
  for (std::size_t i = 0; i < part.turns.size() && i < whole.turns.size(); ++i)
    part.turns[i] = std::max(part.turns[i], whole.turns[i]);
  part.settle();
}

Arena memory_of(const Session* session, const Session& otherwise, Into where, unsigned gpu) {
  if (where == Into::host) return Arena::on_host(kPieceSize);
  return Arena::on_device((session != nullptr ? *session : otherwise).raw(), gpu, kPieceSize);
}

std::vector<Rate> Probe::measure(const std::vector<Variant>& variants, const std::vector<Piece>& pieces, bool is_cold,
                                 const std::function<void()>& told) {
  Pieces shared{pieces, is_cold};
  const PageCacheRestorer restorer{survey_, shared};
  std::vector<Team> teams;
  for (const Variant& variant : variants) {
    const auto memory = [&] { return memory_of(variant.session, session_, variant.into, gpu_); };
    teams.emplace_back(survey_, variant, memory, shared);
  }
  std::vector<Rate> rates(variants.size());
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      teams[i].take_turn(shared, seconds_each(seconds_, variants.size()) / kTurns, rates[i]);
      told();
    }
  }
  for (Rate& rate : rates) rate.settle();
  return rates;
}

Rate Probe::repeat(const std::function<void()>& copy, std::uint64_t bytes) const {
  copy();
  Rate rate;
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    Done done;
    while (done.busy_seconds < seconds_ / kTurns / 4) {
      throw_if_interrupted();
      const Clock::time_point start = Clock::now();
      copy();
      done.busy_seconds += seconds_since(start);
      done.bytes += bytes;
    }
    rate.turns.push_back(done.rate());
    rate.bytes += done.bytes;
    rate.seconds += done.busy_seconds;
  }
  rate.bytes_per_second = static_cast<double>(rate.bytes) / rate.seconds;
  return rate;
}

std::optional<Rate> Probe::measure_link(Into into) {
  const std::unique_ptr<CudaDriver> driver = CudaDriver::open(session_.raw(), gpu_);
  if (driver == nullptr) return std::nullopt;
  driver->enter();
  const Arena host = driver->pinned_host(kPieceSize);
  const Arena device = Arena::on_device(session_.raw(), gpu_, kPieceSize);
  const CudaDriver::Stream stream = driver->open_stream();
  const Rate rate = repeat(
      [&] {
        if (into == Into::device) driver->copy_to_device(device.data(), host.data(), kPieceSize, stream);
        else driver->copy_to_host(host.data(), device.data(), kPieceSize, stream);
        driver->wait(stream);
      },
      kPieceSize);
  driver->close_stream(stream);
  return rate;
}

Rate Probe::measure_host_copy() {
  const Arena from = Arena::on_host(kPieceSize), to = Arena::on_host(kPieceSize);
  std::memset(from.data(), 1, from.size());
  return repeat([&] { std::memcpy(to.data(), from.data(), kPieceSize); }, kPieceSize);
}

}  // namespace penstock::tools
