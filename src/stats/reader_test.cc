// SPDX-License-Identifier: Apache-2.0

#include "stats/reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "stats/counters.h"
#include "stats/layout.h"

namespace penstock::core {
namespace {

// A copy of a segment's bytes, which tests corrupt.
class Bytes {
 public:
  explicit Bytes(std::size_t size) : size_(size) {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    data_ = static_cast<std::byte*>(memory);
  }
  ~Bytes() { ::munmap(data_, size_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  std::byte* data() { return data_; }
  std::span<std::byte> all() { return {data_, size_}; }
  StatsHeader& header() { return *reinterpret_cast<StatsHeader*>(data_); }

 private:
  std::size_t size_;
  std::byte* data_;
};

class ReaderTest : public testing::Test {
 protected:
  ReaderTest() {
    counters_.add(PathId::bounce, Reason::stand_in, Op::read, 4096);
    counters_.add(PathId::bounce, Reason::stand_in, Op::read, 100);
    counters_.add(PathId::host, Reason::none, Op::write, 7);
    counters_.add_latency(PathId::bounce, Op::read, 12'000);
    counters_.add_direct(PathId::bounce, Op::read, 4096);
    counters_.add_failure(PathId::bounce, Op::read);
    counters_.add_save({1, 4096, 30, 0, 0, 0, 0, 7});
    counters_.add_save({1, 4096, 3, 0, 0, 0, 0, 0});
    counters_.cufile().choose_level(2);
    counters_.cufile().start();
    counters_.cufile().add_transfer({.bytes = 5000, .nanoseconds = 3000});
  }

  // The bytes in the process's segment now.
  std::unique_ptr<Bytes> copy() {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code error;
      const std::string target = std::filesystem::read_symlink(entry.path(), error);
      if (target != std::string("/memfd:") + kStatsName + " (deleted)") continue;
      const int fd = std::stoi(entry.path().filename());
      auto bytes = std::make_unique<Bytes>(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END)));
      EXPECT_EQ(::pread(fd, bytes->data(), bytes->all().size(), 0), static_cast<ssize_t>(bytes->all().size()));
      return bytes;
    }
    ADD_FAILURE() << "no segment: " << describe(counters_.sharing());
    return nullptr;
  }

  Counters counters_;
};

TEST_F(ReaderTest, RefusesNamesThatComeTwice) {
  const auto bytes = copy();
  auto* const labels = reinterpret_cast<StatsLabel*>(bytes->data() + bytes->header().labels_at);
  labels[1] = labels[0];
  EXPECT_TRUE(read_segment(bytes->all()).status().is(Code::bad_setting));
}

TEST_F(ReaderTest, ReadsWhatTheWriterCounted) {
  const auto bytes = copy();

  const Result<StatsSnapshot> snapshot = read_segment(bytes->all());

  ASSERT_TRUE(snapshot.ok()) << describe(snapshot.status());
  EXPECT_EQ(snapshot->pid, ::getpid());
  EXPECT_FALSE(snapshot->library.empty());
  ASSERT_EQ(snapshot->rows.size(), 2u);
  EXPECT_EQ(snapshot->rows[0].path, "bounce");
  EXPECT_EQ(snapshot->rows[0].reason, "stand_in");
  EXPECT_EQ(snapshot->rows[0].bytes, 4196u);
  EXPECT_EQ(snapshot->rows[0].operations, 2u);
  EXPECT_EQ(snapshot->rows[1].path, "host");
  EXPECT_EQ(snapshot->rows[1].op, Op::write);
  ASSERT_EQ(snapshot->histograms.size(), 2u);
  EXPECT_EQ(snapshot->histograms[0].sizes[size_bucket(4096)], 1u);
  EXPECT_EQ(snapshot->histograms[0].sizes[size_bucket(100)], 1u);
  EXPECT_EQ(snapshot->histograms[0].latencies[latency_bucket(12'000)], 1u);
  EXPECT_TRUE(snapshot->has_direct_bytes);
  EXPECT_EQ(snapshot->histograms[0].direct_bytes, 4096u);
  EXPECT_EQ(snapshot->histograms[1].direct_bytes, 0u);
  EXPECT_EQ(snapshot->histograms[0].failures, 1u);
  EXPECT_EQ(snapshot->histograms[1].failures, 0u);
  EXPECT_EQ(snapshot->saves, (SaveNumbers{2, 8192, 33, 0, 0, 0, 0, 7}));
  EXPECT_EQ(snapshot->cufile.level, 2u);
  EXPECT_TRUE(snapshot->cufile.counting);
  EXPECT_EQ(snapshot->cufile.operations(CufileOperation::read).ok, 1u);
  EXPECT_EQ(snapshot->cufile.sums.sizes[0][1], 1u);
}

TEST_F(ReaderTest, OfAVersionThatDoesNotCountDirectBytesThereAreNone) {
  const auto bytes = copy();
  bytes->header().features = 0;

  const Result<StatsSnapshot> snapshot = read_segment(bytes->all());

  ASSERT_TRUE(snapshot.ok()) << describe(snapshot.status());
  EXPECT_FALSE(snapshot->has_direct_bytes);
  EXPECT_EQ(snapshot->histograms[0].direct_bytes, 0u);
  EXPECT_EQ(snapshot->histograms[0].failures, 0u);
  EXPECT_EQ(snapshot->saves, SaveNumbers{});
}

TEST_F(ReaderTest, RefusesAnotherFormatWithAReason) {
  const auto bytes = copy();
  bytes->header().version = kStatsVersion + 1;

  EXPECT_TRUE(read_segment(bytes->all()).status().is(Code::unsupported));
}

TEST_F(ReaderTest, RefusesWhatIsCutShort) {
  const auto bytes = copy();

  for (const std::size_t size :
       {std::size_t{0}, sizeof(StatsHeader) - 1, sizeof(StatsHeader), bytes->all().size() - 8}) {
    EXPECT_TRUE(read_segment(bytes->all().first(size)).status().is(Code::bad_setting)) << size;
  }
}

TEST_F(ReaderTest, RefusesEveryOffsetAndCountThatDoesNotFit) {
  const auto good = copy();
  const auto spoilt = [&](auto member, std::uint64_t value) {
    Bytes bytes(good->all().size());
    std::memcpy(bytes.data(), good->data(), good->all().size());
    bytes.header().*member = static_cast<std::remove_reference_t<decltype(bytes.header().*member)>>(value);
    return read_segment(bytes.all()).status().is(Code::bad_setting);
  };

  for (const std::uint64_t value :
       {std::uint64_t{0x4000000080000000}, UINT64_MAX, UINT64_MAX - 7, good->all().size()}) {
    EXPECT_TRUE(spoilt(&StatsHeader::labels_at, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::shards_at, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::cufile_at, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::paths, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::reasons, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::size_buckets, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::latency_buckets, value)) << value;
    EXPECT_TRUE(spoilt(&StatsHeader::shard_bytes, value)) << value;
  }
  EXPECT_TRUE(spoilt(&StatsHeader::shards, kStatsShards + 1000));
  EXPECT_TRUE(spoilt(&StatsHeader::shard_bytes, 8));
  EXPECT_TRUE(spoilt(&StatsHeader::shard_bytes, good->header().shard_bytes + 4));
  EXPECT_TRUE(spoilt(&StatsHeader::shards_at, good->header().shards_at + 1));
  EXPECT_TRUE(spoilt(&StatsHeader::cufile_bytes, sizeof(CufileSection) - 8));
  EXPECT_TRUE(spoilt(&StatsHeader::segment_bytes, good->header().segment_bytes - 1));
}

TEST(OtherVersionTest, OtherPathsReasonsAndBucketsAreReadAllTheSame) {
  // Two paths, three reasons, one shard, two size buckets, one latency bucket.
  constexpr std::size_t kCufileAt = 1024;
  Bytes bytes(kCufileAt + sizeof(CufileSection));
  StatsHeader& header = bytes.header();
  std::memcpy(header.magic, kStatsMagic, sizeof header.magic);
  header.version = kStatsVersion;
  header.header_bytes = sizeof header;
  header.segment_bytes = bytes.all().size();
  header.paths = 2;
  header.reasons = 3;
  header.shards = 1;
  header.size_buckets = 2;
  header.latency_buckets = 1;
  header.labels_at = 136;
  header.shards_at = 136 + 5 * sizeof(StatsLabel);
  header.shard_bytes = 2 * 3 * 2 * sizeof(StatsCell) + 2 * 2 * 4 * 8;
  header.cufile_at = kCufileAt;
  header.cufile_bytes = sizeof(CufileSection);
  const char* const labels[] = {"old", "teleport", "none", "luck", "magic"};
  for (std::size_t i = 0; i < 5; ++i) std::strcpy(reinterpret_cast<char*>(bytes.data()) + 136 + i * 32, labels[i]);
  auto* const numbers = reinterpret_cast<std::uint64_t*>(bytes.data() + header.shards_at);
  numbers[((1 * 3 + 2) * 2 + 1) * 2] = 77;     // Bytes of teleport, magic, write.
  numbers[((1 * 3 + 2) * 2 + 1) * 2 + 1] = 5;  // Operations.
  numbers[24 + (1 * 2 + 1) * 2 + 1] = 5;       // The second size.
  numbers[24 + 8 + 1 * 2 + 1] = 4;             // The only latency.
  numbers[24 + 8 + 4 + 1 * 2 + 1] = 99;

  const Result<StatsSnapshot> snapshot = read_segment(bytes.all());

  ASSERT_TRUE(snapshot.ok()) << describe(snapshot.status());
  ASSERT_EQ(snapshot->rows.size(), 1u);
  EXPECT_EQ(snapshot->rows[0].path, "teleport");
  EXPECT_EQ(snapshot->rows[0].reason, "magic");
  EXPECT_EQ(snapshot->rows[0].op, Op::write);
  EXPECT_EQ(snapshot->rows[0].bytes, 77u);
  EXPECT_EQ(snapshot->histograms.at(0).sizes, (std::vector<std::uint64_t>{0, 5}));
  EXPECT_EQ(snapshot->histograms.at(0).latencies, (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(snapshot->histograms.at(0).latency_sum, 99u);
}

TEST_F(ReaderTest, NamesAreBoundedAndHarmlessToATerminal) {
  const auto bytes = copy();
  auto* const label =
      reinterpret_cast<StatsLabel*>(bytes->data() + bytes->header().labels_at) + static_cast<unsigned>(PathId::bounce);
  std::memset(label->text, 'x', sizeof label->text);  // No zero at its end.
  label->text[0] = '\x1b';
  label->text[1] = static_cast<char>(0xff);

  const Result<StatsSnapshot> snapshot = read_segment(bytes->all());

  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->rows[0].path, "??" + std::string(30, 'x'));
}

TEST_F(ReaderTest, NoBytesCrashIt) {
  const auto good = copy();
  std::mt19937_64 random(42);
  unsigned understood = 0;

  for (int round = 0; round < 3000; ++round) {
    Bytes bytes(good->all().size());
    std::memcpy(bytes.data(), good->data(), good->all().size());
    for (std::uint64_t i = random() % 6; i > 0; --i) {
      // Mostly in the header after the magic, where damage matters.
      const std::uint64_t at = 8 + random() % (random() % 4 == 0 ? good->all().size() - 8 : sizeof(StatsHeader) - 8);
      bytes.data()[at] = static_cast<std::byte>(random() % 3 == 0 ? 0xff : random());
    }
    understood += read_segment(bytes.all()).ok() ? 1 : 0;
  }

  EXPECT_GT(understood, 100u);
  EXPECT_LT(understood, 2900u);
}

TEST(LatencyTest, BucketsAreContiguousAndFine) {
  for (unsigned i = 1; i < kLatencyBuckets; ++i) {
    EXPECT_EQ(latency_bucket(latency_floor(i)), i);
    EXPECT_EQ(latency_bucket(latency_floor(i) - 1), i - 1);
  }
  EXPECT_EQ(latency_bucket(UINT64_MAX), kLatencyBuckets - 1);
}

TEST(LatencyTest, AQuantileLiesInItsBucket) {
  std::vector<std::uint64_t> latencies(kLatencyBuckets);
  latencies[latency_bucket(1'000)] = 98;
  latencies[latency_bucket(1'000'000)] = 2;

  EXPECT_NEAR(static_cast<double>(latency_quantile(latencies, 0.5)), 1e3, 150);
  EXPECT_NEAR(static_cast<double>(latency_quantile(latencies, 0.99)), 1e6, 150e3);
  EXPECT_EQ(latency_quantile(std::vector<std::uint64_t>(5), 0.5), 0u);
  EXPECT_EQ(latency_quantile({}, 0.5), 0u);
}

}  // namespace
}  // namespace penstock::core
