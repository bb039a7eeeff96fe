// SPDX-License-Identifier: Apache-2.0

#include "tools/kv/survey.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kv/index.h"
#include "kv/journal.h"
#include "kv/journal_file.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/kv/stores.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kExtentsMost = 1 << 24;  // A tebibyte in extents of 64 KiB.
constexpr int kDepth = 2;  // A folder of penstock.kv has folders of models, which have those of their stores.

void find_stores(const fs::path& folder, int depth, std::vector<std::string>& found) {
  std::error_code error;
  if (fs::is_regular_file(fs::symlink_status(folder / "slab", error))) {
    found.push_back(folder.string());
    return;
  }
  if (depth == 0) return;
  fs::directory_iterator entries(folder, error);
  if (error) fail_errno(folder.string(), "list the folder", error.value());
  for (const fs::directory_entry& entry : entries) {
    if (fs::is_directory(entry.symlink_status(error))) find_stores(entry.path(), depth - 1, found);
  }
}

// Finds the writer in /proc/locks: trying to take the lock would turn away a writer that opens the store just then.
std::optional<int> writer_of(const std::string& folder) {
  struct stat facts {};
  if (lstat((folder + "/lease").c_str(), &facts) != 0) return std::nullopt;
  const std::string lease = fmt::format("{:02x}:{:02x}:{}", major(facts.st_dev), minor(facts.st_dev), facts.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, is_advisory, mode, inode;
    int process = 0;
    if (words >> number >> kind >> is_advisory >> mode >> process >> inode && kind == "FLOCK" && inode == lease) {
      return process;
    }
  }
  return std::nullopt;
}

std::string problem_of_shape(const SurveyedStore& store) {
  if (store.extent_bytes <= kv::kHeaderBytes || store.extent_bytes % kv::kSlotAlign != 0 ||
      store.capacity_bytes < store.extent_bytes || store.capacity_bytes / store.extent_bytes > kExtentsMost) {
    return fmt::format("its journal names {} bytes in extents of {}, which no store has; remove the folder",
                       store.capacity_bytes, store.extent_bytes);
  }
  struct stat facts {};
  if (stat((store.folder + "/slab").c_str(), &facts) != 0) return "its slab cannot be looked at";
  if (static_cast<std::uint64_t>(facts.st_size) < store.capacity_bytes) {
    return fmt::format("its slab has {} bytes and its journal names {}: it was cut; its next writer restores its size",
                       facts.st_size, store.capacity_bytes);
  }
  return "";
}

// Reads chunks as a writer does when it opens: if two are in one place, the newer one is right.
void take_up(const std::vector<kv::Chunk>& told, SurveyedStore& store) {
  kv::Index index(store.capacity_bytes, store.extent_bytes, kv::Eviction::recent_use);
  for (auto chunk = told.rbegin(); chunk != told.rend(); ++chunk) {
    if (!index.restore(*chunk)) continue;
    store.chunks.push_back(*chunk);
    store.chunk_bytes += chunk->bytes;
  }
  std::reverse(store.chunks.begin(), store.chunks.end());
  store.misplaced = told.size() - store.chunks.size();
  store.used_bytes = index.slab().used_bytes();
}

std::string read_journal(SurveyedStore& store) {
  const auto journal = kv::read_journal_file(store.folder + "/journal", 0);
  if (journal.status().is_errno(EFBIG)) {
    return "its journal is longer than 4 GiB, which no store's is; remove the folder";
  }
  if (!journal.ok()) return status_of(journal.status()).message();
  const std::span<const std::byte> bytes = journal->bytes;
  store.journal_bytes = journal->file_bytes;
  std::optional<kv::Record> first;
  if (bytes.size() >= kv::kRecordBytes) first = kv::decode_record(bytes.first<kv::kRecordBytes>());
  if (!first || first->kind != kv::RecordKind::store) {
    return "its journal does not begin as this version's do; the next writer begins it anew, without chunks";
  }
  store.name = first->chunk.key;
  store.extent_bytes = first->chunk.slot_bytes;
  store.capacity_bytes = first->chunk.bytes;
  std::string problem = problem_of_shape(store);
  if (!problem.empty()) return problem;
  kv::Replay replay(store.name);
  replay.add(bytes);
  if (replay.is_foreign()) return "its journal names two stores; the next writer begins it anew, without chunks";
  store.torn_bytes = store.journal_bytes - replay.offset();
  store.is_closed = replay.is_closed();
  take_up(replay.chunks(), store);
  return "";
}

}  // namespace

std::vector<std::string> store_folders(const std::string& folder) {
  std::vector<std::string> found;
  find_stores(folder, kDepth, found);
  std::sort(found.begin(), found.end());
  if (!found.empty()) return found;
  throw Failure(
      fmt::format("{}: there is no store of KV caches in it (a folder with the files 'slab' and 'journal'); "
                  "name a folder that was given to penstock.kv.Store",
                  folder));
}

SurveyedStore survey(const std::string& folder) {
  SurveyedStore store;
  store.folder = folder;
  store.writer = writer_of(folder);
  if (!exists(folder + "/journal")) {
    store.problem = "it has no journal: a writer is just making it, or ended before it was made";
    return store;
  }
  store.problem = read_journal(store);
  return store;
}

std::vector<SurveyedStore> survey_all(const std::string& folder) {
  std::vector<SurveyedStore> stores;
  for (const std::string& one : store_folders(folder)) stores.push_back(survey(one));
  return stores;
}

std::string hexadecimal(const kv::Name& name) {
  std::string text;
  for (const std::byte byte : name) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace penstock::tools
