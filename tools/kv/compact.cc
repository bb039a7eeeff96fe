// SPDX-License-Identifier: Apache-2.0

// `penstock kv compact`: rewrites the journals of stores without records of chunks that are gone.
#include <fmt/format.h>

#include <cerrno>
#include <memory>

#include "kv/store.h"
#include "tools/common/command_line.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/kv/stores.h"
#include "tools/kv/survey.h"

namespace penstock::tools {
namespace {

constexpr const char* kCompactExamples =
    "Examples:\n"
    "  penstock kv compact /mnt/nvme0/kv\n"
    "  penstock kv compact /mnt/nvme0/kv --verify    reads every chunk, and drops those that are damaged\n"
    "A writer does this by itself when its journal is long, and when it ends. No process may write a store meanwhile; "
    "those that read it may go on. The new journal takes the old one's place in one step.\n"
    "Exit code: 0 done, 1 failed, or a store was left as it was, 2 wrong usage.";

struct CompactSettings {
  std::string folder;
  bool verify = false;
  bool json = false;
};

struct Compacted {
  std::string folder;
  std::string problem;  // The reason why it was not changed, or not all of it was read; or "".
  std::uint64_t chunks_before = 0, chunks = 0;
  std::uint64_t journal_bytes_before = 0, journal_bytes = 0;
};

void require_done(const core::Status& status) {
  if (!status.ok()) throw Failure(status_of(status).message());
}

// Gets every chunk: a store drops a damaged chunk when it is asked for it.
void ask_for_all(kv::Store& store, const SurveyedStore& told, std::string& problem) {
  for_each_batch(told.folder, told.chunks, [&](std::span<const ReadChunk> batch) {
    std::vector<kv::Request> requests;
    for (const ReadChunk& one : batch) requests.push_back({one.chunk->key, {&one.memory, 1}});
    store.get(each_of(requests));
    for (const kv::Request& one : requests) {
      if (one.outcome == kv::Outcome::failed) problem = "a chunk was not read: " + status_of(one.status).message();
    }
  });
}

std::unique_ptr<kv::SessionVolume> become_writer(penstock_session* session, const SurveyedStore& store) {
  auto volume = kv::SessionVolume::open(own_library(), session, store.folder, kv::SessionVolume::Role::writer,
                                        store.capacity_bytes);
  if (volume.ok()) return std::move(*volume);
  if (!volume.status().is_errno(EWOULDBLOCK)) require_done(volume.status());
  throw Failure(fmt::format("another process writes it{}; end that, and try again",
                            store.writer ? fmt::format(" ({})", *store.writer) : ""));
}

Compacted compact_one(penstock_session* session, const std::string& folder, bool verify) {
  Compacted done{folder};
  SurveyedStore told = survey(folder);
  if (told.problem.empty()) {
    const auto volume = become_writer(session, told);
    told = survey(folder);  // From here on no other process writes the store.
    done.problem = told.problem;
    done.chunks_before = done.chunks = told.chunks.size() + told.misplaced;
    done.journal_bytes_before = done.journal_bytes = told.journal_bytes;
    if (!told.problem.empty()) return done;
    auto store = kv::Store::open(*volume, {told.name, told.capacity_bytes, told.extent_bytes});
    require_done(store.status());
    if (verify) ask_for_all(**store, told, done.problem);
    require_done((*store)->close());
    told = survey(folder);
    done.chunks = told.chunks.size();
    done.journal_bytes = told.journal_bytes;
  }
  if (!told.problem.empty()) done.problem = told.problem;
  return done;
}

Json compacted_json(const Compacted& done) {
  return {{"folder", done.folder},
          {"problem", or_null(done.problem)},
          {"chunk_count_before", done.chunks_before},
          {"chunk_count", done.chunks},
          {"journal_bytes_before", done.journal_bytes_before},
          {"journal_bytes", done.journal_bytes}};
}

void print_compacted(const Compacted& done) {
  if (!done.problem.empty()) return print("{}: {}\n", done.folder, done.problem);
  print("{}: {} chunks, {} dropped; its journal had {} and has {}\n", done.folder, done.chunks,
        done.chunks_before - done.chunks, format_size(done.journal_bytes_before), format_size(done.journal_bytes));
}

int compact(const CompactSettings& settings) {
  const std::vector<std::string> folders = store_folders(settings.folder);
  const Session session = open_host_session();
  bool is_done = true;
  Json json = {{"stores", Json::array()}};
  for (const std::string& folder : folders) {
    throw_if_interrupted();
    Compacted done{folder};
    try {
      done = compact_one(session.raw(), folder, settings.verify);
    } catch (const Failure& failure) {
      done.problem = failure.what();
    }
    is_done = is_done && done.problem.empty();
    if (settings.json) json["stores"].push_back(compacted_json(done));
    else print_compacted(done);
  }
  if (settings.json) print_json(json);
  return is_done ? kSuccess : kFailed;
}

}  // namespace

void add_kv_compact(CommandLine& command) {
  auto settings = std::make_shared<CompactSettings>();
  command.option("FOLDER", settings->folder, "A folder with stores").required();
  command.flag("--verify", settings->verify, "Read every chunk, and drop those that are damaged");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kCompactExamples);
  command.runs([settings] { return compact(*settings); });
}

}  // namespace penstock::tools
