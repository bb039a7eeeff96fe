// SPDX-License-Identifier: Apache-2.0

// A replay of a journal, and the reading of its file in steps.
#include "kv/journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kv/journal_file.h"
#include "kv/test_chunks.h"

namespace penstock::kv {
namespace {

constexpr std::uint64_t kStep = 1 << 20;  // The bytes that are read at a time.

Record first_of(std::uint64_t store) { return {RecordKind::store, {.key = name_of(store)}}; }
Record record_of(RecordKind kind, std::uint64_t key, std::uint64_t generation) {
  return {kind, {.key = name_of(key), .slot_bytes = 8192, .bytes = 100, .generation = generation}};
}

TEST(JournalTest, AnEraseIsOfItsGenerationAlone) {
  Replay replay(name_of(0));
  replay.add(encode(std::vector{first_of(0), record_of(RecordKind::put, 1, 5), record_of(RecordKind::erase, 1, 4),
                                record_of(RecordKind::put, 2, 6), record_of(RecordKind::erase, 2, 6),
                                record_of(RecordKind::erase, 3, 7)}));
  EXPECT_NE(replay.find(name_of(1)), nullptr) << "an older chunk of its key left the store";
  EXPECT_EQ(replay.find(name_of(2)), nullptr);
  EXPECT_EQ(replay.count(), 1u);
  EXPECT_EQ(replay.generation(), 7u);
}

TEST(JournalTest, OneThatIsNotTheStoresHasNoChunks) {
  const Record put = record_of(RecordKind::put, 1, 1);
  const std::vector<Record> journals[] = {
      {first_of(9), put},              // It is another store's,
      {put, put},                      // it does not say whose,
      {first_of(0), put, first_of(0)}  // or it begins a second time.
  };
  for (const std::vector<Record>& records : journals) {
    Replay replay(name_of(0));
    replay.add(encode(records));
    EXPECT_TRUE(replay.is_foreign());
    EXPECT_EQ(replay.count(), 0u);
    replay.add(encode(std::vector{put}));
    EXPECT_EQ(replay.count(), 0u) << "nothing that follows is believed";
  }
}

class JournalFileTest : public testing::Test {
 protected:
  JournalFileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-journal-XXXXXX").string();
    path_ = mkdtemp(name.data()) + std::string("/journal");
  }
  ~JournalFileTest() override { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }
  void write(std::uint64_t records, std::uint64_t wrong_one = UINT64_MAX) const {
    std::vector<Record> all(records, record_of(RecordKind::put, 1, 1));
    all[0] = first_of(0);
    std::vector<std::byte> bytes = encode(all);
    if (wrong_one < records) bytes[wrong_one * kRecordBytes] ^= std::byte{1};
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::string path_;
};

TEST_F(JournalFileTest, IsReadInStepsForAsLongAsTheseEndInARecord) {
  constexpr std::uint64_t kPerStep = kStep / kRecordBytes;
  struct Row {
    const char* name;
    std::uint64_t records, wrong_one, offset, bytes;
  };
  const Row rows[] = {{"less than a step", 10, UINT64_MAX, 0, 10 * kRecordBytes},
                      {"a step", kPerStep, UINT64_MAX, 0, kStep},
                      {"two and a half", 5 * kPerStep / 2, UINT64_MAX, 0, 5 * kStep / 2},
                      {"from its middle", 5 * kPerStep / 2, UINT64_MAX, 2 * kStep, kStep / 2},
                      {"from its end", kPerStep, UINT64_MAX, kStep, 0},
                      {"a step whose last record is none", 3 * kPerStep, 2 * kPerStep - 1, 0, 2 * kStep}};
  for (const Row& row : rows) {
    write(row.records, row.wrong_one);
    const auto journal = read_journal_file(path_, row.offset);
    ASSERT_TRUE(journal.ok()) << row.name << ": " << core::describe(journal.status());
    EXPECT_EQ(journal->bytes.size(), row.bytes) << row.name;
    EXPECT_EQ(journal->file_bytes, row.records * kRecordBytes) << row.name;
  }
}

TEST_F(JournalFileTest, ThatIsNotThereIsEmptyAndWasNeverReplaced) {
  const auto journal = read_journal_file(path_, 0);
  ASSERT_TRUE(journal.ok());
  EXPECT_EQ(journal->identity, 0u);
  EXPECT_TRUE(journal->bytes.empty());
}

}  // namespace
}  // namespace penstock::kv
