// SPDX-License-Identifier: Apache-2.0

#include "path/null/null_path.h"

#include <vector>

#include "path/paths.h"

namespace penstock::core {
namespace {

class NullChannel final : public Channel {
 public:
  explicit NullChannel(unsigned depth) : depth_(depth) { done_.reserve(depth); }

  bool has_room() const override { return done_.size() < depth_; }
  bool is_idle() const override { return done_.empty(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override {
    done_.push_back(move_and_wait(request, chunk));
    done_.back().cookie = cookie;
  }
  unsigned poll(std::span<Completion> completions, bool) override {
    unsigned count = 0;
    while (count < completions.size() && !done_.empty()) {
      completions[count++] = done_.back();
      done_.pop_back();
    }
    return count;
  }
  Completion move_and_wait(const RoutedRequest&, const Chunk& chunk) override {
    return {.file_offset = chunk.file_offset, .size = chunk.size, .bytes = chunk.size, .io_mode = chunk.io_mode};
  }
  void forget_file(std::uint64_t) override {}
  bool is_broken() const override { return false; }

 private:
  const unsigned depth_;
  std::vector<Completion> done_;
};

}  // namespace

Result<std::unique_ptr<Channel>> NullPath::open_channel(const ChannelOptions& options) {
  return std::unique_ptr<Channel>(std::make_unique<NullChannel>(options.depth));
}

std::unique_ptr<Path> make_null_path(const PathEnvironment&) { return std::make_unique<NullPath>(); }

Reason null_outlook(const PathSettings&) { return Reason::none; }

}  // namespace penstock::core
