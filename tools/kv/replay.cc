// SPDX-License-Identifier: Apache-2.0

#include "tools/kv/replay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include "tools/common/content.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/kv/stores.h"

namespace penstock::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenCommits{500};  // The same as penstock.kv.Store's.
constexpr std::uint64_t kExtentBytes = std::uint64_t{64} << 20;
constexpr kv::Name kStoreName = {std::byte{'t'}, std::byte{'r'}, std::byte{'a'}, std::byte{'c'}, std::byte{'e'}};

double seconds_since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

kv::Name name_of(std::uint64_t block) {
  kv::Name name{};
  const std::uint64_t words[] = {scramble(block + 1), block};
  static_assert(sizeof words == sizeof name);
  std::memcpy(name.data(), words, sizeof words);
  return name;
}

template <typename T>
T require_done(core::Result<T> result) {
  if (!result.ok()) throw Failure(status_of(result.status()).message());
  return std::move(*result);
}

std::string new_folder(const std::string& above) {
  std::string folder = above + "/penstock-kv-bench-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) fail_errno(above, "make a folder in it");
  return folder;
}

std::uint64_t whole_pages(std::uint64_t bytes) { return bytes / kv::kHeaderBytes * kv::kHeaderBytes; }

constexpr std::size_t kTraceBytesMost = std::size_t{1} << 30;
constexpr std::uint64_t kTokensMost = std::uint64_t{1} << 32;

[[noreturn]] void fail_line(const std::string& path, std::size_t line, const std::string& why) {
  throw Failure(fmt::format("{}: line {}: {}", path, line, why));
}

// Finds a member under one of the two names that traces use for it.
const Json* member(const Json& object, const char* name, const char* other) {
  auto found = object.find(name);
  if (found == object.end()) found = object.find(other);
  return found == object.end() ? nullptr : &*found;
}

TraceRequest request_in(const std::string& path, std::size_t number, std::string_view line,
                        std::uint64_t block_tokens) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) fail_line(path, number, "expected a JSON object");
  const Json* const tokens = member(object, "input_length", "input_tokens");
  const Json* const blocks = member(object, "hash_ids", "block_hashes");
  if (tokens == nullptr || !tokens->is_number_unsigned() || tokens->get<std::uint64_t>() > kTokensMost) {
    fail_line(path, number, "expected 'input_length', the tokens of the prompt");
  }
  if (blocks == nullptr || !blocks->is_array()) fail_line(path, number, "expected 'hash_ids', a list of numbers");
  TraceRequest request{tokens->get<std::uint64_t>(), {}};
  const std::uint64_t whole = request.tokens / block_tokens, all = (request.tokens + block_tokens - 1) / block_tokens;
  if (blocks->size() != whole && blocks->size() != all) {
    fail_line(path, number,
              fmt::format("{} 'hash_ids' for {} tokens, expected {} of {} tokens each: is --block-tokens right?",
                          blocks->size(), request.tokens, all, block_tokens));
  }
  for (const Json& block : *blocks) {
    if (!block.is_number_unsigned()) fail_line(path, number, "'hash_ids' has something that is no number");
    if (request.blocks.size() < whole) request.blocks.push_back(block.get<std::uint64_t>());
  }
  return request;
}

}  // namespace

std::uint64_t least_room(std::uint64_t chunk_bytes) {
  // A slot is up to a 64th larger than its chunk: twice that, and pages for its header and for both roundings.
  return whole_pages(chunk_bytes + chunk_bytes / 32 + 3 * kv::kHeaderBytes);
}

Replay::Replay(penstock_session* session, const ReplaySettings& settings)
    : settings_(settings), piece_bytes_(settings.chunk_bytes / settings.pieces),
      slots_(std::max<std::size_t>(1, settings.window_bytes / settings.chunk_bytes)),
      window_(Arena::on_device(session, settings.gpu, slots_ * settings.chunk_bytes)), content_(settings.chunk_bytes),
      pieces_(slots_ * settings.pieces), folder_(new_folder(settings.folder), Unfinished::Kind::folder) {
  volume_ =
      require_done(kv::SessionVolume::open(own_library(), session, folder_.name(), kv::SessionVolume::Role::writer,
                                           settings.capacity_bytes, settings.is_direct));
  store_ = open_store(*volume_, settings.capacity_bytes);
  if (settings.host_bytes > 0) {
    host_volume_ = require_done(
        kv::SessionVolume::open(own_library(), session, "", kv::SessionVolume::Role::memory, settings.host_bytes));
    host_store_ = open_store(*host_volume_, settings.host_bytes);
    tier_ = std::make_unique<kv::TieredStore>(*host_store_, *store_);
  }
  committer_ = std::thread(&Replay::commit_again_and_again, this);
}

std::unique_ptr<kv::Store> Replay::open_store(kv::SessionVolume& volume, std::uint64_t bytes) const {
  const std::uint64_t extent = std::max(least_room(settings_.chunk_bytes), std::min(kExtentBytes, whole_pages(bytes)));
  return require_done(kv::Store::open(volume, {kStoreName, bytes, extent}));
}

Replay::~Replay() { end_commits(); }

void Replay::end_commits() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  ended_.notify_all();
  if (committer_.joinable()) committer_.join();
}

void Replay::commit_again_and_again() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kBetweenCommits, [this] { return is_ending_; })) {
    lock.unlock();
    static_cast<void>(store_->commit());  // finish() reports a commit that fails.
    lock.lock();
  }
}

// The pieces of one chunk lie as far apart as the window has chunks: memory holds layer after layer.
std::size_t Replay::place_of(std::size_t slot, unsigned piece) const { return (piece * slots_ + slot) * piece_bytes_; }

std::vector<kv::Request> Replay::requests_of(Blocks blocks) {
  std::vector<kv::Request> requests;
  for (std::size_t slot = 0; slot < blocks.size(); ++slot) {
    const std::span<iovec> own = std::span(pieces_).subspan(slot * settings_.pieces, settings_.pieces);
    for (unsigned piece = 0; piece < settings_.pieces; ++piece) {
      own[piece] = {window_.data() + place_of(slot, piece), piece_bytes_};
    }
    requests.push_back({name_of(blocks[slot]), own});
  }
  return requests;
}

// Calls with as many blocks at a time as the window holds, until a call returns false.
template <typename Call>
void Replay::in_windows(Blocks blocks, const Call& call) {
  for (bool goes_on = true; goes_on && !blocks.empty();) {
    throw_if_interrupted();
    const Blocks some = blocks.first(std::min(slots_, blocks.size()));
    goes_on = call(some);
    blocks = blocks.subspan(some.size());
  }
}

std::size_t Replay::hits(const TraceRequest& request) const {
  const auto is_missing = [&](std::uint64_t block) { return !reader().contains(name_of(block)); };
  return static_cast<std::size_t>(std::find_if(request.blocks.begin(), request.blocks.end(), is_missing) -
                                  request.blocks.begin());
}

std::optional<double> Replay::foretell(Blocks blocks) const {
  double all = 0;
  while (!blocks.empty()) {
    std::vector<kv::Name> names;
    for (const std::uint64_t block : blocks.first(std::min(slots_, blocks.size()))) names.push_back(name_of(block));
    const auto seconds = reader().seconds_to_get(names);
    if (!seconds) return seconds;
    all += *seconds;
    blocks = blocks.subspan(names.size());
  }
  return all;
}

void Replay::fill(Blocks blocks) {
  for (std::size_t slot = 0; slot < blocks.size(); ++slot) {
    RandomContent(blocks[slot]).fill(content_, 0);
    for (unsigned piece = 0; piece < settings_.pieces; ++piece) {
      window_.upload(place_of(slot, piece), std::span(content_).subspan(piece * piece_bytes_, piece_bytes_));
    }
  }
}

void Replay::check(Blocks blocks) {
  for (std::size_t slot = 0; slot < blocks.size(); ++slot) {
    for (unsigned piece = 0; piece < settings_.pieces; ++piece) {
      window_.download(place_of(slot, piece), std::span(content_).subspan(piece * piece_bytes_, piece_bytes_));
    }
    if (RandomContent(blocks[slot]).first_difference(content_, 0)) ++wrong_;
  }
}

// Gets blocks, and leaves in `blocks` those that came: blocks behind a missing one are useless. Returns the seconds
// that took, without checking the bytes.
double Replay::get(Blocks& blocks) {
  double seconds = 0;
  std::size_t came = 0;
  in_windows(blocks, [&](Blocks some) {
    std::vector<kv::Request> requests = requests_of(some);
    const auto began = Clock::now();
    reader().get(kv::each_of(requests));
    seconds += seconds_since(began);
    const auto missing = std::find_if(requests.begin(), requests.end(),
                                      [](const kv::Request& one) { return one.outcome != kv::Outcome::done; });
    const auto count = static_cast<std::size_t>(missing - requests.begin());
    check(some.first(count));
    came += count;
    return count == some.size();
  });
  blocks = blocks.first(came);
  return seconds;
}

void Replay::put(Blocks blocks, std::vector<double>& seconds) {
  in_windows(blocks, [&](Blocks some) {
    fill(some);
    std::vector<kv::Request> requests = requests_of(some);
    const auto began = Clock::now();
    writer().put(kv::each_of(requests));
    seconds.push_back(seconds_since(began));
    for (const kv::Request& one : requests) {
      ++puts_[static_cast<unsigned>(one.outcome)];
      if (one.outcome == kv::Outcome::failed) throw Failure("put a chunk: " + status_of(one.status).message());
    }
    return true;
  });
}

Replayed Replay::run(const TraceRequest& request) {
  Replayed done;
  done.tokens = request.tokens;
  done.without = static_cast<double>(request.tokens) / settings_.tokens_per_second;
  Blocks there = Blocks(request.blocks).first(hits(request));
  done.with = done.without;
  if (!there.empty()) {
    done.foretold = foretell(there);
    done.get = get(there);
    done.hit_tokens = there.size() * settings_.block_tokens;
    done.computing_hits = static_cast<double>(done.hit_tokens) / settings_.tokens_per_second;
    const bool is_got = !done.foretold || *done.foretold < done.computing_hits;
    if (done.foretold) done.is_right = is_got == (done.get < done.computing_hits);
    if (is_got) done.with = done.get + done.without - done.computing_hits;
  }
  put(Blocks(request.blocks).subspan(there.size()), done.puts);
  return done;
}

void Replay::finish() {
  end_commits();
  const core::Status status = writer().commit();
  if (!status.ok()) throw Failure(status_of(status).message());
}

std::optional<kv::TierState> Replay::tier_state() const {
  if (tier_ == nullptr) return std::nullopt;
  return tier_->state();
}

std::vector<TraceRequest> read_trace(const std::string& path, std::uint64_t block_tokens, std::uint64_t requests_most) {
  const std::string text = read_bounded(path, kTraceBytesMost);
  if (text.size() > kTraceBytesMost) throw Failure(path + ": it is larger than a trace may be, which is 1 GiB");
  std::vector<TraceRequest> requests;
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (requests_most != 0 && requests.size() == requests_most) break;
    requests.push_back(request_in(path, number, line, block_tokens));
  }
  if (requests.empty()) throw Failure(path + ": there is no request in it");
  return requests;
}

}  // namespace penstock::tools
