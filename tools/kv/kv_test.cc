// SPDX-License-Identifier: Apache-2.0

// `penstock kv` on stores that this process makes, and on what only looks like one.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>

#include "base/unique_fd.h"
#include "fakes/tool_fixture.h"
#include "fakes/waiting.h"
#include "kv/session_volume.h"
#include "kv/store.h"
#include "kv/test_chunks.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

constexpr std::uint64_t kExtent = 1 << 20;
constexpr std::uint64_t kSlab = 8 * kExtent;
constexpr std::size_t kChunk = 100'000;
constexpr kv::Library kLibrary = {penstock_file_register, penstock_file_close,   penstock_file_sync,
                                  penstock_transfer,      penstock_queue_open,   penstock_queue_close,
                                  penstock_queue_submit,  penstock_queue_reap,   penstock_crc32c_vector,
                                  penstock_path_count,    penstock_report_bytes, penstock_file_advise};

class KvTool : public Tool {
 protected:
  KvTool() {
    penstock_config* config = nullptr;
    EXPECT_EQ(penstock_config_create(&config).code, 0);
    EXPECT_EQ(penstock_config_set(config, "device", "host").code, 0);
    EXPECT_EQ(penstock_session_open(config, &session_).code, 0);
    penstock_config_close(config);
  }
  ~KvTool() override {
    end();
    penstock_session_close(session_);
  }

  std::string folder_of(const std::string& number) const { return path("kv/model/" + number); }
  // Makes this process the writer of a store.
  kv::Store& open(const std::string& number = "0") {
    fs::create_directories(path("kv/model"));
    volume_ = std::move(
        kv::SessionVolume::open(kLibrary, session_, folder_of(number), kv::SessionVolume::Role::writer, kSlab).value());
    store_ = std::move(kv::Store::open(*volume_, {kv::name_of(7), kSlab, kExtent}).value());
    return *store_;
  }
  // Ends like a process that dies.
  void end() {
    store_.reset();
    volume_.reset();
  }
  void make_store(std::uint64_t chunks, const std::string& number = "0") {
    kv::Store& store = open(number);
    for (std::uint64_t key = 0; key < chunks; ++key) {
      EXPECT_EQ(put(store, key, kv::content_of(key, 0, kChunk)), kv::Outcome::done);
    }
    EXPECT_TRUE(store.close().ok());
    end();
  }

  json told(std::vector<std::string> words, int exit_code = 0) {
    words.insert(words.begin(), "kv");
    words.push_back("--json");
    const Finished done = run(words);
    EXPECT_EQ(done.exit_code, exit_code) << done.out << done.err;
    const json report = json::parse(done.out, nullptr, false);
    EXPECT_EQ(report.value("schema", 0), 1) << done.out;
    return report;
  }
  json chunk_at(std::size_t place) { return told({"inspect", "kv", "--chunks"})["stores"][0]["chunks"][place]; }
  void flip(std::uint64_t offset) const {
    std::fstream slab(folder_of("0") + "/slab", std::ios::in | std::ios::out | std::ios::binary);
    slab.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(slab.get() ^ 1);
    slab.seekp(static_cast<std::streamoff>(offset));
    slab.put(byte);
  }
  void write_journal(const std::string& bytes) const {
    std::ofstream(folder_of("0") + "/journal", std::ios::binary) << bytes;
  }

  penstock_session* session_ = nullptr;
  std::unique_ptr<kv::SessionVolume> volume_;
  std::unique_ptr<kv::Store> store_;
};

TEST_F(KvTool, InspectTellsOfEachStoreBelowTheFolder) {
  make_store(10);
  make_store(3, "1");
  const json stores = told({"inspect", "kv"})["stores"];
  ASSERT_EQ(stores.size(), 2u);
  EXPECT_EQ(stores[0]["folder"], "kv/model/0");
  EXPECT_EQ(stores[0]["chunk_count"], 10);
  EXPECT_EQ(stores[0]["chunk_bytes"], 10 * kChunk);
  EXPECT_EQ(stores[0]["capacity_bytes"], kSlab);
  EXPECT_EQ(stores[0]["closed"], true);
  EXPECT_EQ(stores[0]["writer"], nullptr);
  EXPECT_EQ(stores[0]["problem"], nullptr);
  EXPECT_EQ(stores[1]["chunk_count"], 3);
  EXPECT_EQ(told({"inspect", "kv/model/1"})["stores"].size(), 1u);
  const Finished done = run({"kv", "inspect", "kv"});
  EXPECT_NE(done.out.find("kv/model/1"), std::string::npos) << done.out;
}

TEST_F(KvTool, InspectListsChunksAndTheWriterAndDoesNotDisturbIt) {
  kv::Store& store = open();
  for (std::uint64_t key = 0; key < 5; ++key) put(store, key, kv::content_of(key, 0, kChunk), 0.5);
  ASSERT_TRUE(store.commit().ok());
  put(store, 9, kv::content_of(9, 0, kChunk));
  const json one = told({"inspect", "kv", "--chunks"})["stores"][0];
  EXPECT_EQ(one["writer"], getpid());
  EXPECT_EQ(one["closed"], false);
  ASSERT_EQ(one["chunks"].size(), 5u) << "what is not committed is not told";
  std::set<std::string> keys;
  for (const json& chunk : one["chunks"]) {
    keys.insert(chunk["key"]);
    EXPECT_EQ(chunk["bytes"], kChunk);
    EXPECT_EQ(chunk["cost_seconds"], 0.5);
  }
  EXPECT_EQ(keys.size(), 5u);
  EXPECT_TRUE(store.commit().ok());
  end();
  EXPECT_NE(run({"kv", "inspect", "kv"}).out.find("its last writer did not close it"), std::string::npos);
}

TEST_F(KvTool, VerifyNamesWhatIsDamagedAndChangesNothing) {
  make_store(12);
  EXPECT_EQ(told({"verify", "kv"})["stores"][0]["whole_count"], 12);
  const json payload = chunk_at(3), header = chunk_at(8);
  flip(payload["offset"].get<std::uint64_t>() + kv::kHeaderBytes + kChunk - 1);
  flip(header["offset"].get<std::uint64_t>() + 40);
  const std::string slab = text_of(folder_of("0") + "/slab"), journal = text_of(folder_of("0") + "/journal");
  const json one = told({"verify", "kv"}, 1)["stores"][0];
  EXPECT_EQ(one["whole_count"], 10);
  ASSERT_EQ(one["damaged"].size(), 2u);
  EXPECT_EQ(one["damaged"][0]["key"], payload["key"]);
  EXPECT_EQ(one["damaged"][1]["key"], header["key"]);
  EXPECT_EQ(one["unreadable"].size(), 0u);
  const Finished done = run({"kv", "verify", "kv"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.out.find(payload["key"].get<std::string>() + ", 97.66 KiB at "), std::string::npos) << done.out;
  EXPECT_TRUE(text_of(folder_of("0") + "/slab") == slab);
  EXPECT_TRUE(text_of(folder_of("0") + "/journal") == journal);
}

TEST_F(KvTool, WhatWasOverwrittenAfterTheLastCommitIsNoDamage) {
  kv::Store& store = open();
  for (std::uint64_t key = 0; key < 200; ++key) {
    put(store, key, kv::content_of(key, 0, kChunk));
    if (key == 99) {
      ASSERT_TRUE(store.commit().ok());
    }
  }
  end();
  const json one = told({"verify", "kv"})["stores"][0];
  EXPECT_GT(one["replaced_count"], 0);
  EXPECT_EQ(one["damaged"].size(), 0u);
}

TEST_F(KvTool, VerifyBesideAWriterAtWorkFindsNoDamage) {
  kv::Store& store = open();
  std::atomic<bool> is_over = false;
  std::atomic<std::uint64_t> key = 0;
  std::jthread writer([&] {
    for (; !is_over; ++key) {
      put(store, key, kv::content_of(key, 0, kChunk));
      if (key % 16 == 0) {
        EXPECT_TRUE(store.commit().ok());
      }
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = key;
    const json one = told({"verify", "kv"})["stores"][0];
    EXPECT_EQ(one["damaged"].size(), 0u) << one.dump();
    EXPECT_TRUE(wait_until([&] { return key > before; })) << "the writer went on";
  }
  is_over = true;
}

// A chunk's payload is overwritten first, the journal tells of it when the writer commits.
TEST_F(KvTool, WhatAWriterIsJustReplacingIsNoDamage) {
  kv::Store& store = open();
  for (std::uint64_t key = 0; key < 5; ++key) put(store, key, kv::content_of(key, 0, kChunk));
  ASSERT_TRUE(store.commit().ok());
  const json chunk = chunk_at(0);
  flip(chunk["offset"].get<std::uint64_t>() + kv::kHeaderBytes);
  const core::UniqueFd watch(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.get(), (folder_of("0") + "/journal").c_str(), IN_OPEN), 0);
  const pid_t child = start({"kv", "verify", "kv", "--json"});
  inotify_event event{};
  for (int opened = 0; opened < 2; ++opened) {  // The second time it has read every chunk once.
    pollfd ready{watch.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())), 1);
    ASSERT_EQ(read(watch.get(), &event, sizeof event), static_cast<ssize_t>(sizeof event));
  }
  ASSERT_TRUE(store.erase(kv::name_of(0)));
  ASSERT_TRUE(store.commit().ok());
  const Finished done = wait(child);
  EXPECT_EQ(done.exit_code, 0) << done.out;
  EXPECT_EQ(json::parse(done.out, nullptr, false)["stores"][0]["replaced_count"], 1) << done.out;
}

TEST_F(KvTool, CompactShortensTheJournalAndKeepsEveryChunk) {
  kv::Store& store = open();
  for (std::uint64_t key = 0; key < 20; ++key) put(store, key, kv::content_of(key, 0, kChunk));
  for (int i = 0; i < 500; ++i) {
    put(store, 100, kv::content_of(100, 0, 100));
    store.erase(kv::name_of(100));
  }
  ASSERT_TRUE(store.commit().ok());
  end();
  const json one = told({"compact", "kv"})["stores"][0];
  EXPECT_EQ(one["chunk_count"], 20);
  EXPECT_EQ(one["journal_bytes"], 22 * kv::kRecordBytes) << "the store's name, its chunks, and that it was closed";
  EXPECT_GT(one["journal_bytes_before"], 1000 * kv::kRecordBytes);
  kv::Store& again = open();
  std::vector<std::byte> memory(kChunk);
  for (std::uint64_t key = 0; key < 20; ++key) {
    EXPECT_EQ(get(again, key, memory), kv::Outcome::done);
    EXPECT_EQ(memory, kv::content_of(key, 0, kChunk));
  }
}

TEST_F(KvTool, CompactWithVerifyDropsWhatIsDamagedAndNoMore) {
  make_store(12);
  flip(chunk_at(3)["offset"].get<std::uint64_t>() + kv::kHeaderBytes);
  EXPECT_EQ(told({"compact", "kv"})["stores"][0]["chunk_count"], 12) << "without it, payloads are not read";
  const json one = told({"compact", "kv", "--verify"})["stores"][0];
  EXPECT_EQ(one["chunk_count_before"], 12);
  EXPECT_EQ(one["chunk_count"], 11);
  EXPECT_EQ(told({"verify", "kv"})["stores"][0]["whole_count"], 11);
  EXPECT_NE(run({"kv", "compact", "kv"}).out.find("11 chunks, 0 dropped"), std::string::npos);
}

TEST_F(KvTool, AStoreThatIsBeingWrittenIsNotCompacted) {
  make_store(4);
  open();
  const std::string journal = text_of(folder_of("0") + "/journal");
  const std::string problem = told({"compact", "kv"}, 1)["stores"][0]["problem"];
  EXPECT_EQ(problem, "another process writes it (" + std::to_string(getpid()) + "); end that, and try again");
  EXPECT_TRUE(text_of(folder_of("0") + "/journal") == journal);
}

TEST_F(KvTool, AJournalOfNonsenseIsTold) {
  make_store(6);
  const std::string whole = text_of(folder_of("0") + "/journal");
  write_journal(whole.substr(0, whole.size() - 10));
  const json torn = told({"inspect", "kv"})["stores"][0];
  EXPECT_EQ(torn["torn_bytes"], kv::kRecordBytes - 10);
  EXPECT_EQ(torn["chunk_count"], 6);
  const kv::RecordBytes huge = kv::encode_record({kv::RecordKind::store, {kv::name_of(7), 0, 8192, ~std::uint64_t{0}}});
  const kv::RecordBytes flat = kv::encode_record({kv::RecordKind::store, {kv::name_of(7), 0, 0, 0}});
  const kv::RecordBytes tall = kv::encode_record({kv::RecordKind::store, {kv::name_of(7), 0, kExtent, kSlab * 2}});
  for (const std::string& journal :
       {std::string(), std::string("no"), std::string(5000, 'x'), whole.substr(64),
        std::string(reinterpret_cast<const char*>(huge.data()), huge.size()),
        std::string(reinterpret_cast<const char*>(flat.data()), flat.size()),
        std::string(reinterpret_cast<const char*>(tall.data()), tall.size()), whole.substr(0, 128) + whole}) {
    write_journal(journal);
    for (const char* command : {"inspect", "verify", "compact"}) {
      const json one = told({command, "kv"}, 1)["stores"][0];
      EXPECT_FALSE(one["problem"].is_null()) << one.dump();
      EXPECT_TRUE(text_of(folder_of("0") + "/journal") == journal) << "it is the next writer's to begin anew";
    }
  }
  fs::remove(folder_of("0") + "/journal");
  EXPECT_NE(told({"inspect", "kv"}, 1)["stores"][0]["problem"].get<std::string>().find("no journal"),
            std::string::npos);
  ASSERT_EQ(mkfifo((folder_of("0") + "/journal").c_str(), 0600), 0);
  EXPECT_FALSE(told({"verify", "kv"}, 1)["stores"][0]["problem"].is_null());
}

TEST_F(KvTool, ALongHoleInPlaceOfAJournalIsNotRead) {
  make_store(2);
  const std::string journal = folder_of("0") + "/journal";
  fs::resize_file(journal, std::uint64_t{5} << 30);
  for (const std::string command : {"inspect", "verify", "compact"}) {
    const Finished done = run({"kv", command, "kv"});
    EXPECT_EQ(done.exit_code, 1) << command;
    EXPECT_NE(done.out.find("its journal is longer than 4 GiB"), std::string::npos) << command << done.out << done.err;
  }
  fs::resize_file(journal, std::uint64_t{3} << 30);  // The longest that one may be: all behind its records is torn.
  const Finished done = run({"kv", "inspect", "kv"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("bytes of its journal are torn"), std::string::npos) << done.out << done.err;
  rusage most{};  // The tool's use, over all its runs.
  ASSERT_EQ(getrusage(RUSAGE_CHILDREN, &most), 0);
  EXPECT_LT(most.ru_maxrss, 1 << 20) << "KiB: it was read into memory";
}

TEST_F(KvTool, ChunksOfAJournalThatCannotBeAreNotLookedFor) {
  make_store(2);
  std::string journal = text_of(folder_of("0") + "/journal");
  journal.resize(3 * kv::kRecordBytes);  // Not that it was closed.
  const kv::Chunk beyond{kv::name_of(50), kSlab, 8192, 100, 1000},
      large{kv::name_of(51), 2 * kExtent, 8192, 1 << 30, 1001};
  for (const kv::Chunk& chunk : {beyond, large}) {
    const kv::RecordBytes record = kv::encode_record({kv::RecordKind::put, chunk});
    journal.append(reinterpret_cast<const char*>(record.data()), record.size());
  }
  write_journal(journal);
  const json one = told({"inspect", "kv"})["stores"][0];
  EXPECT_EQ(one["misplaced_count"], 2);
  EXPECT_EQ(one["chunk_count"], 2);
  EXPECT_EQ(told({"verify", "kv"})["stores"][0]["whole_count"], 2);
  EXPECT_EQ(told({"compact", "kv"})["stores"][0]["chunk_count_before"], 4);
  EXPECT_EQ(told({"inspect", "kv"})["stores"][0]["misplaced_count"], 0);
}

TEST_F(KvTool, ASlabThatWasCutIsTold) {
  make_store(2);
  fs::resize_file(folder_of("0") + "/slab", 5000);
  EXPECT_NE(told({"verify", "kv"}, 1)["stores"][0]["problem"].get<std::string>().find("it was cut"), std::string::npos);
}

TEST_F(KvTool, WhereThereIsNoStoreItSaysWhatItLooksFor) {
  fs::create_directories(path("empty/below"));
  for (const char* command : {"inspect", "verify", "compact"}) {
    const Finished done = run({"kv", command, "empty"});
    EXPECT_EQ(done.exit_code, 1);
    EXPECT_NE(done.err.find("there is no store of KV caches in it"), std::string::npos) << done.err;
    EXPECT_EQ(run({"kv", command, "absent"}).exit_code, 1);
    EXPECT_EQ(run({"kv", command}).exit_code, 2);
  }
  EXPECT_EQ(run({"kv"}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::tools
