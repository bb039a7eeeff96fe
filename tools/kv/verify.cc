// SPDX-License-Identifier: Apache-2.0

// `penstock kv verify`: reads every chunk and compares it with its header and its checksum. It writes nothing, and may
// run while another process writes the store.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "kv/store_view.h"
#include "tools/common/command_line.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/kv/stores.h"
#include "tools/kv/survey.h"

namespace penstock::tools {
namespace {

constexpr const char* kVerifyExamples =
    "Examples:\n"
    "  penstock kv verify /mnt/nvme0/kv\n"
    "  penstock kv verify /mnt/nvme0/kv --json\n"
    "A damaged chunk is never returned: a get of it is a miss. 'penstock kv compact "
    "--verify' drops it. Chunks that were overwritten after the journal was written are not damaged: a loss of power "
    "leaves such chunks, and so does a writer at work, for which this command waits up to 5 s.\n"
    "Exit code: 0 every chunk is whole, 1 failed, or some are damaged, 2 wrong usage.";

constexpr int kLooksMost = 25;
constexpr std::chrono::milliseconds kBetweenLooks{200};

struct VerifySettings {
  std::string folder;
  bool json = false;
};

// A chunk that is not whole: unreadable if the drive failed, else damaged.
struct Suspect {
  kv::Chunk chunk;
  core::Status status{};
};

struct Verified {
  SurveyedStore store;
  std::uint64_t replaced = 0;
  std::vector<Suspect> suspects;

  bool is_whole() const { return store.problem.empty() && suspects.empty(); }
  std::uint64_t whole() const { return store.chunks.size() - replaced - suspects.size(); }
};

// Reads a store's chunks as any reader does.
class Verifier {
 public:
  Verifier(penstock_session* session, SurveyedStore store) : verified_{std::move(store)} {
    if (!verified_.store.problem.empty()) return;
    auto opened = kv::SessionVolume::open(own_library(), session, verified_.store.folder,
                                          kv::SessionVolume::Role::reader, verified_.store.capacity_bytes);
    if (opened.ok()) volume_ = std::move(*opened);
    else verified_.store.problem = status_of(opened.status()).message();
  }

  Verified run() {
    if (volume_ == nullptr) return verified_;
    look(verified_.store.chunks);
    const int looks = verified_.store.writer ? kLooksMost : 1;
    for (int i = 0; i < looks && !verified_.suspects.empty(); ++i) {
      if (i > 0) wait_for_input(-1, std::chrono::steady_clock::now() + kBetweenLooks);
      look_again();
    }
    return verified_;
  }

 private:
  void look(std::span<const kv::Chunk> chunks) {
    for_each_batch(verified_.store.folder, chunks, [&](std::span<const ReadChunk> batch) {
      std::vector<kv::Request> requests(batch.size());
      std::vector<kv::Request*> all;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        requests[i].pieces = {&batch[i].memory, 1};
        requests[i].chunk = *batch[i].chunk;
        all.push_back(&requests[i]);
      }
      kv::read_chunks(*volume_, verified_.store.name, all);
      for (const kv::Request& one : requests) {
        if (one.outcome == kv::Outcome::done) continue;
        if (one.outcome == kv::Outcome::damaged && has_another(one.chunk)) ++verified_.replaced;
        else verified_.suspects.push_back({one.chunk, one.status});
      }
    });
  }

  // True if the slot holds the header of another chunk, and that is whole.
  bool has_another(const kv::Chunk& chunk) {
    const kv::Pages page(1);
    const iovec piece{page[0].data(), kv::kHeaderBytes};
    penstock_request transfer = kv::slab_request(PENSTOCK_READ, chunk.slot_offset, {&piece, 1});
    const kv::Moved moved = volume_->transfer({&transfer, 1})[0];
    if (!moved.status.ok() || moved.bytes != kv::kHeaderBytes) return false;
    const auto generation = kv::generation_of(chunk.slot_offset, verified_.store.name, page[0]);
    return generation && *generation != chunk.generation;
  }

  // Looks again at chunks that were not whole. Chunks that the journal no longer names were replaced meanwhile.
  void look_again() {
    const SurveyedStore now = survey(verified_.store.folder);
    std::map<kv::Name, std::uint64_t> generations;
    for (const kv::Chunk& chunk : now.chunks) generations[chunk.key] = chunk.generation;
    std::vector<kv::Chunk> left;
    for (const Suspect& one : std::exchange(verified_.suspects, {})) {
      const auto found = generations.find(one.chunk.key);
      if (found != generations.end() && found->second == one.chunk.generation) left.push_back(one.chunk);
      else ++verified_.replaced;
    }
    look(left);
  }

  Verified verified_;
  std::unique_ptr<kv::SessionVolume> volume_;
};

Json suspect_json(const Suspect& suspect) {
  return {{"key", hexadecimal(suspect.chunk.key)},
          {"bytes", suspect.chunk.bytes},
          {"offset", suspect.chunk.slot_offset},
          {"error", suspect.status.ok() ? Json(nullptr) : Json(status_of(suspect.status).message())}};
}

Json verified_json(const Verified& verified) {
  Json json = {{"folder", verified.store.folder}, {"problem", nullptr}};
  if (!verified.store.problem.empty()) {
    json["problem"] = verified.store.problem;
    return json;
  }
  json.update({{"store", hexadecimal(verified.store.name)},
               {"chunk_count", verified.store.chunks.size()},
               {"chunk_bytes", verified.store.chunk_bytes},
               {"whole_count", verified.whole()},
               {"replaced_count", verified.replaced},
               {"damaged", Json::array()},
               {"unreadable", Json::array()}});
  for (const Suspect& one : verified.suspects) {
    json[one.status.ok() ? "damaged" : "unreadable"].push_back(suspect_json(one));
  }
  return json;
}

void print_verified(const Verified& verified) {
  const SurveyedStore& store = verified.store;
  if (!store.problem.empty()) return print("{}: {}\n", store.folder, store.problem);
  print("{}: {} of {} chunks are whole, {} in all{}\n", store.folder, verified.whole(), store.chunks.size(),
        format_size(store.chunk_bytes),
        verified.replaced == 0 ? "" : fmt::format("; {} were overwritten since", verified.replaced));
  for (const Suspect& one : verified.suspects) {
    print("  {}, {} at {}: {}\n", hexadecimal(one.chunk.key), format_size(one.chunk.bytes), one.chunk.slot_offset,
          one.status.ok() ? "damaged: its header or its checksum is wrong" : status_of(one.status).message());
  }
}

int verify(const VerifySettings& settings) {
  std::vector<SurveyedStore> stores = survey_all(settings.folder);
  const Session session = open_host_session();
  bool is_whole = true;
  Json json = {{"stores", Json::array()}};
  for (SurveyedStore& store : stores) {
    const Verified verified = Verifier(session.raw(), std::move(store)).run();
    is_whole = is_whole && verified.is_whole();
    if (settings.json) json["stores"].push_back(verified_json(verified));
    else print_verified(verified);
  }
  if (settings.json) print_json(json);
  return is_whole ? kSuccess : kFailed;
}

}  // namespace

void add_kv_verify(CommandLine& command) {
  auto settings = std::make_shared<VerifySettings>();
  command.option("FOLDER", settings->folder, "A folder with stores").required();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kVerifyExamples);
  command.runs([settings] { return verify(*settings); });
}

}  // namespace penstock::tools
