// SPDX-License-Identifier: Apache-2.0

// Kernels, on the host, read a file out of registered pages, every second time through a cache, while somebody cuts,
// punches, replaces and rewrites it, and the lease is taken again. Every word tells the version of the file. Under the
// lease no read gives a word of another version than those that the file had meanwhile. Without it reads go wrong,
// which shows that the test would see it.
//
// PENSTOCK_RACES says how many changes there are.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "fakes/gpu_file_fixture.h"
#include "fakes/waiting.h"
#include "path/pagecache/pagecache_reasons.h"

namespace penstock::core {
namespace {

class GpuRaces : public GpuFileFixture, public testing::WithParamInterface<bool> {
 protected:
  GpuRaces() { again_after_ = std::chrono::nanoseconds(0); }
  static unsigned wanted() {
    const char* const text = std::getenv("PENSTOCK_RACES");
    return text == nullptr ? 300 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  }
  // Opens the file, which a lease delays, and changes it. Reads see versions up to that one from now on.
  void change(std::minstd_rand& random, unsigned version) {
    const bool replaces = random() % 4 == 0;
    if (replaces) return replace(version);
    const auto kind = random() % 3;  // The third writes in place alone.
    const UniqueFd fd = open_as(O_WRONLY);
    newest_ = version;
    if (kind == 0) (void)!::ftruncate(fd.get(), static_cast<off_t>(random() % 2 * 4096));
    if (kind == 1) (void)::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes);
    write(fd.get(), version);
    oldest_ = version;
  }
  // The open file stays what it was: a replaced name is no change of it.
  void replace(unsigned version) {
    const std::string fresh = path_ + ".new";
    const UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    newest_ = version;
    write(fd.get(), version);
    ASSERT_EQ(::rename(fresh.c_str(), path_.c_str()), 0);
    is_replaced_ = true;
  }
  // Zeros are what a hole has while the file is changed, and a short read what a cut file has.
  bool is_wrong(std::uint64_t first, std::uint64_t count) const {
    std::uint64_t words[16] = {};
    const unsigned oldest = oldest_;
    const gpu::Result result = value_.read(gpu::Thread(), first * 8, count * 8, words);
    const unsigned newest = newest_, later = oldest_;
    if (result.error != gpu::Error::none) return true;
    const bool is_still = oldest == newest && later == oldest;
    if (is_still && result.bytes != count * 8) return true;
    for (std::uint64_t i = 0; i < result.bytes / 8; ++i) {
      if (words[i] == 0 && !is_still) continue;
      const auto version = static_cast<std::uint32_t>(words[i]);
      if (words[i] != word(first + i, version) || version < oldest || version > newest) return true;
    }
    return false;
  }
  void read_until_over(unsigned seed) {
    std::minstd_rand random(seed);
    while (!is_over_) {
      const std::uint64_t count = random() % 16 + 1, first = random() % (kWords - count);
      wrong_ += is_wrong(first, count);
      ++reads_;
    }
  }
  void reopen(bool has_cache) {
    files().close(number_);
    if (is_replaced_) {
      EXPECT_TRUE(session_->deregister_file(file_).ok());
      reader_ = open_as(O_RDONLY);
      file_ = *session_->register_file(reader_.get());
      is_replaced_ = false;
      oldest_ = newest_.load();
    }
    open({.may_be_stale = !GetParam(), .cache_bytes = has_cache ? 1u << 16 : 0});
  }

  std::atomic<unsigned> oldest_{0}, newest_{0};  // Versions that reads may see: oldest_ was written as a whole.
  std::atomic<unsigned> reads_{0}, wrong_{0};
  std::atomic<bool> is_over_{false};
  bool is_replaced_ = false;
};

// Each turn opens the file for kernels, which read it while it is changed once or twice.
TEST_P(GpuRaces, AreNeverSeenUnderTheLease) {
  std::minstd_rand random(5);
  unsigned version = 0, resident_turns = 0;
  for (unsigned turn = 0; turn < wanted(); ++turn) {
    const UniqueFd blocker = GetParam() ? UniqueFd() : open_as(O_WRONLY);
    reopen(turn % 2 == 1);
    if (turn == 0 && facts().resident_bytes == 0 && GetParam()) GTEST_SKIP() << reason_name(facts().reason);
    resident_turns += facts().resident_bytes > 0;
    is_over_ = false;
    for (unsigned kernel = 0; kernel < 2; ++kernel) {
      kernels_.launch(1, [&, seed = turn * 2 + kernel + 1](const Lane&) { read_until_over(seed); });
    }
    for (unsigned i = 0; i < 4 && !is_replaced_; ++i) {
      const unsigned before = reads_;
      ASSERT_TRUE(wait_until([&] { return reads_ > before + 2; }));
      change(random, ++version);
    }
    const unsigned before = reads_;
    ASSERT_TRUE(wait_until([&] { return reads_ > before + 4; }));
    is_over_ = true;
    kernels_.wait();
  }
  std::printf("[  RACES   ] %s: %u changes, %u of %u turns resident; %u reads, %u of them wrong\n",
              GetParam() ? "leased" : "no lease", version, resident_turns, wanted(), reads_.load(), wrong_.load());
  EXPECT_GT(resident_turns, wanted() / 2);
  if (GetParam()) EXPECT_EQ(wrong_, 0u);
  else EXPECT_GT(wrong_, 0u) << "nothing went wrong that a lease prevents";
}

INSTANTIATE_TEST_SUITE_P(Leases, GpuRaces, testing::Values(true, false),
                         [](const auto& one) { return std::string(one.param ? "Leased" : "NotLeased"); });

}  // namespace
}  // namespace penstock::core
