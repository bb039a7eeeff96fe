// SPDX-License-Identifier: Apache-2.0

// `penstock kv inspect`: lists the chunks of stores from their journals. It reads no chunk, and disturbs no other
// process.
#include <algorithm>
#include <memory>

#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/kv/survey.h"

namespace penstock::tools {
namespace {

constexpr const char* kInspectExamples =
    "Examples:\n"
    "  penstock kv inspect /mnt/nvme0/kv\n"
    "  penstock kv inspect /mnt/nvme0/kv --json --chunks    every chunk, with its size and where it lies\n"
    "Keys are shown as the store has them: hashes, from which no prompt can be derived. WRITER is a process that has "
    "the "
    "store open for writing; '-' also if it is in a container that this one cannot see.\n"
    "Exit code: 0 done, 1 failed, or some store could not be read, 2 wrong usage.";

struct InspectSettings {
  std::string folder;
  bool chunks = false;
  bool json = false;
};

Json chunk_json(const kv::Chunk& chunk) {
  return {{"key", hexadecimal(chunk.key)},  {"bytes", chunk.bytes},           {"offset", chunk.slot_offset},
          {"slot_bytes", chunk.slot_bytes}, {"generation", chunk.generation}, {"crc32c", chunk.crc},
          {"cost_seconds", chunk.cost}};
}

Json store_json(const SurveyedStore& store, bool with_chunks) {
  Json json = {{"folder", store.folder}, {"problem", nullptr}, {"writer", nullptr}};
  if (store.writer) json["writer"] = *store.writer;
  if (!store.problem.empty()) {
    json["problem"] = store.problem;
    return json;
  }
  json.update({{"store", hexadecimal(store.name)},
               {"chunk_count", store.chunks.size()},
               {"chunk_bytes", store.chunk_bytes},
               {"used_bytes", store.used_bytes},
               {"capacity_bytes", store.capacity_bytes},
               {"extent_bytes", store.extent_bytes},
               {"journal_bytes", store.journal_bytes},
               {"torn_bytes", store.torn_bytes},
               {"misplaced_count", store.misplaced},
               {"closed", store.is_closed}});
  if (!with_chunks) return json;
  json["chunks"] = Json::array();
  for (const kv::Chunk& chunk : store.chunks) json["chunks"].push_back(chunk_json(chunk));
  return json;
}

void print_stores(const std::vector<SurveyedStore>& stores) {
  Table table({"STORE", ">CHUNKS", ">BYTES", ">USED", ">CAPACITY", ">JOURNAL", ">WRITER"});
  for (const SurveyedStore& store : stores) {
    if (!store.problem.empty()) continue;
    table.add({store.folder, std::to_string(store.chunks.size()), format_size(store.chunk_bytes),
               format_size(store.used_bytes), format_size(store.capacity_bytes), format_size(store.journal_bytes),
               store.writer ? std::to_string(*store.writer) : "-"});
  }
  const auto is_known = [](const SurveyedStore& store) { return store.problem.empty(); };
  if (std::any_of(stores.begin(), stores.end(), is_known)) print("{}", table.text());
  for (const SurveyedStore& store : stores) {
    if (!store.problem.empty()) print("{}: {}\n", store.folder, store.problem);
    else if (!store.is_closed && !store.writer) {
      print("{}: its last writer did not close it; the next one reads every header\n", store.folder);
    }
    if (store.torn_bytes > 0) print("{}: the last {} bytes of its journal are torn\n", store.folder, store.torn_bytes);
    if (store.misplaced > 0) print("{}: {} chunks cannot be where its journal says\n", store.folder, store.misplaced);
  }
}

void print_chunks(const SurveyedStore& store) {
  print("\n{}\n", store.folder);
  Table table({"KEY", ">BYTES", ">OFFSET", ">GENERATION", ">COST"});
  for (const kv::Chunk& chunk : store.chunks) {
    table.add({hexadecimal(chunk.key), std::to_string(chunk.bytes), std::to_string(chunk.slot_offset),
               std::to_string(chunk.generation), chunk.cost > 0 ? format_duration(chunk.cost) : "-"});
  }
  print("{}", table.text());
}

int inspect(const InspectSettings& settings) {
  const std::vector<SurveyedStore> stores = survey_all(settings.folder);
  if (settings.json) {
    Json json = {{"stores", Json::array()}};
    for (const SurveyedStore& store : stores) json["stores"].push_back(store_json(store, settings.chunks));
    print_json(json);
  } else {
    print_stores(stores);
    for (const SurveyedStore& store : stores) {
      if (settings.chunks && !store.chunks.empty()) print_chunks(store);
    }
  }
  const auto has_problem = [](const SurveyedStore& store) { return !store.problem.empty(); };
  return std::any_of(stores.begin(), stores.end(), has_problem) ? kFailed : kSuccess;
}

}  // namespace

void add_kv_inspect(CommandLine& command) {
  auto settings = std::make_shared<InspectSettings>();
  command.option("FOLDER", settings->folder, "A folder with stores").required();
  command.flag("--chunks", settings->chunks, "List every chunk, too");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kInspectExamples);
  command.runs([settings] { return inspect(*settings); });
}

}  // namespace penstock::tools
