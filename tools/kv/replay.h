// SPDX-License-Identifier: Apache-2.0

// Replays a trace of prompts (trace.h) on a store, with bytes in place of a model: a prompt's first blocks that the
// store has are got, the others are put. Computing takes a given time for each token.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kv/host_tier.h"
#include "kv/session_drive.h"
#include "kv/store.h"
#include "tools/common/arena.h"
#include "tools/common/context.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {

// Traces of prompts without their words: for each request its tokens and the hashes of its blocks, where an equal hash
// means an equal beginning up to there. A file has one JSON object a line, in the form that Mooncake's public traces
// have: `input_length` and `hash_ids`, besides others that are passed over.
struct TraceRequest {
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> blocks;  // Whole blocks: the last tokens may be in none.
};

// At most `requests_most`, from the beginning; 0: all. "-" is standard input. Fails with the line that makes no sense.
std::vector<TraceRequest> read_trace(const std::string& path, std::uint64_t block_tokens, std::uint64_t requests_most);

struct ReplaySettings {
  std::string folder;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t host_bytes = 0;  // 0: no host memory before the drive.
  std::uint64_t chunk_bytes = 0;
  std::uint64_t window_bytes = 0;  // Memory that chunks are got into, at once.
  unsigned pieces = 1;             // Pieces of a chunk, apart in memory: the layers of a paged cache.
  double tokens_per_second = 0;    // The speed of computing.
  std::uint64_t block_tokens = 0;
  bool is_direct = true;
  unsigned gpu = 0;
};

// The room that a store needs for a chunk of so many bytes, on the drive and in host memory.
std::uint64_t least_room(std::uint64_t chunk_bytes);

// The outcome of one prompt. Seconds, to its first token.
struct Replayed {
  std::uint64_t tokens = 0, hit_tokens = 0;
  double without = 0;                // All of it is computed.
  double with = 0;                   // By the decision: blocks that are there are got, or computed as well.
  double get = 0;                    // Getting them, whatever was decided.
  double computing_hits = 0;         // Computing those in place of getting them.
  std::optional<double> foretold{};  // The forecast of the time to get them.
  std::optional<bool> is_right{};    // The decision, where something was foretold.
  std::vector<double> puts{};        // The time of each put.
};

class Replay {
 public:
  // A store of its own, in a new folder below settings.folder, which goes with this. The session outlives it.
  Replay(penstock_session* session, const ReplaySettings& settings);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  Replayed run(const TraceRequest& request);
  // When all is on the drive.
  void finish();

  std::uint64_t wrong_chunks() const { return wrong_; }  // Got with other bytes than were put.
  kv::State state() const { return store_->state(); }
  std::optional<kv::TierState> tier_state() const;
  std::vector<std::uint64_t> bytes_by_path() const { return drive_->bytes_by_path(); }
  std::uint64_t put_count(kv::Outcome outcome) const { return puts_[static_cast<unsigned>(outcome)]; }

 private:
  using Blocks = std::span<const std::uint64_t>;

  template <typename Call>
  auto by_store(const Call& call) const {
    return tier_ != nullptr ? call(*tier_) : call(*store_);
  }
  template <typename Call>
  void in_windows(Blocks blocks, const Call& call);
  std::unique_ptr<kv::Store> open_store(kv::SessionDrive& drive, std::uint64_t bytes) const;
  std::size_t hits(const TraceRequest& request) const;
  std::optional<double> foretell(Blocks blocks) const;
  double get(Blocks& blocks);
  void put(Blocks blocks, std::vector<double>& seconds);
  void fill(Blocks blocks);
  void check(Blocks blocks);
  std::vector<kv::Request> requests_of(Blocks blocks);
  std::size_t place_of(std::size_t slot, unsigned piece) const;
  void commit_again_and_again();
  void end_commits();

  const ReplaySettings settings_;
  const std::uint64_t piece_bytes_;
  const std::size_t slots_;
  Arena window_;
  std::vector<std::byte> content_;
  std::vector<iovec> pieces_;
  Unfinished folder_;
  std::unique_ptr<kv::SessionDrive> drive_, host_drive_;
  std::unique_ptr<kv::Store> store_, host_store_;
  std::unique_ptr<kv::HostTier> tier_;
  std::uint64_t wrong_ = 0;
  std::uint64_t puts_[kv::kOutcomes] = {};

  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ending_ = false;
  std::thread committer_;
};

}  // namespace penstock::tools
