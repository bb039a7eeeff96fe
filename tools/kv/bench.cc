// SPDX-License-Identifier: Apache-2.0

// `penstock kv bench`: replays a trace of prompts on a store that it makes, and says how much time the store saves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <unordered_set>

#include "tools/common/command_line.h"
#include "tools/common/failure.h"
#include "tools/common/page.h"
#include "tools/common/progress.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/kv/replay.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock kv bench /mnt/nvme0 --trace conversation_trace.jsonl --prefill-rate 12000 --capacity 200G\n"
    "  penstock kv bench /mnt/nvme0 --trace - --prefill-rate 12000 --capacity 20G --host-memory 4G --json < trace\n"
    "FILE has one JSON object in each line, with 'input_length' (tokens) and 'hash_ids' (one for each block of "
    "--block-tokens), as in the traces that Mooncake published. No model runs: computing takes tokens / --prefill-rate "
    "seconds, and the store moves as many bytes as the model's cache would have. Prompts come one after the other, "
    "without the trace's "
    "pauses.\n"
    "Exit code: 0 done, 1 failed, or a chunk came back with wrong bytes, 2 wrong usage, 77 no such GPU.";

struct BenchSettings {
  std::string trace;
  std::string device;
  std::uint64_t requests_most = 0;
  std::uint64_t token_bytes = std::uint64_t{128} << 10;
  ReplaySettings replay;
  bool is_buffered = false;
  bool json = false;
};

// The sums over all prompts.
struct Sums {
  std::uint64_t requests = 0, tokens = 0, hit_tokens = 0, blocks = 0, distinct_blocks = 0;
  std::vector<double> without, with, puts;
  double get_seconds = 0;
  std::uint64_t foretold = 0, right = 0;
  double lost = 0;      // Seconds lost by wrong decisions, compared with right ones.
  double forecast = 0;  // Forecast seconds of gets, and the seconds that those gets took.
  double foretold_gets = 0;

  void add(const Replayed& one) {
    ++requests;
    tokens += one.tokens;
    hit_tokens += one.hit_tokens;
    without.push_back(one.without);
    with.push_back(one.with);
    puts.insert(puts.end(), one.puts.begin(), one.puts.end());
    get_seconds += one.get;
    if (!one.is_right) return;
    ++foretold;
    right += *one.is_right ? 1 : 0;
    forecast += *one.foretold;
    foretold_gets += one.get;
    if (!*one.is_right) lost += std::abs(one.get - one.computing_hits);
  }
};

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

double share_of(double part, double all) { return all > 0 ? part / all : 0; }
double share_of(std::uint64_t part, std::uint64_t all) {
  return share_of(static_cast<double>(part), static_cast<double>(all));
}

// The bytes of requests to the store, and the chunks that came from host memory or from the drive.
struct Traffic {
  std::uint64_t got_bytes = 0, put_bytes = 0, from_host = 0, from_drive = 0;  // from_: chunks.
};

Traffic traffic_of(const Replay& replay) {
  const kv::State store = replay.state();
  if (const auto tier = replay.tier_state()) {
    return {tier->got_bytes, tier->put_bytes, tier->got_from_memory, tier->got_from_drive};
  }
  return {store.counts.get_bytes, store.counts.put_bytes, 0, store.counts.gets[0]};
}

Json seconds_json(const std::vector<double>& seconds) {
  return {{"mean", mean(seconds)},
          {"p50", quantile(seconds, 0.5)},
          {"p95", quantile(seconds, 0.95)},
          {"p99", quantile(seconds, 0.99)}};
}

Json paths_json(const std::vector<std::uint64_t>& bytes) {
  Json json = Json::object();
  for (std::uint32_t path = 0; path < penstock_path_count(); ++path) {
    if (bytes[path] > 0) json[penstock_path_name(static_cast<std::int32_t>(path))] = bytes[path];
  }
  return json;
}

Json report_json(const BenchSettings& settings, const Sums& sums, const Replay& replay) {
  const Traffic traffic = traffic_of(replay);
  const auto put_count = [&](kv::Outcome outcome) { return replay.put_count(outcome); };
  return {{"trace",
           {{"requests", sums.requests},
            {"tokens", sums.tokens},
            {"blocks", sums.blocks},
            {"distinct_blocks", sums.distinct_blocks}}},
          {"chunk_bytes", settings.replay.chunk_bytes},
          {"hit_tokens", sums.hit_tokens},
          {"first_token_seconds", {{"without", seconds_json(sums.without)}, {"with", seconds_json(sums.with)}}},
          {"decisions",
           {{"count", sums.foretold},
            {"right", sums.right},
            {"lost_seconds", sums.lost},
            {"foretold_seconds", sums.forecast},
            {"taken_seconds", sums.foretold_gets}}},
          {"gets",
           {{"bytes", traffic.got_bytes},
            {"seconds", sums.get_seconds},
            {"from_host", traffic.from_host},
            {"from_drive", traffic.from_drive}}},
          {"puts",
           {{"bytes", traffic.put_bytes},
            {"seconds", seconds_json(sums.puts)},
            {"done", put_count(kv::Outcome::done)},
            {"present", put_count(kv::Outcome::present)},
            {"full", put_count(kv::Outcome::full)}}},
          {"evicted", replay.state().counts.evicted},
          {"bytes_by_path", paths_json(replay.bytes_by_path())},
          {"wrong_chunks", replay.wrong_chunks()}};
}

void print_first_tokens(Page& page, const Sums& sums) {
  Table table({"  time to first token", ">mean", ">p50", ">p95"});
  const auto row = [&](const char* name, const std::vector<double>& seconds) {
    table.add({name, format_duration(mean(seconds)), format_duration(quantile(seconds, 0.5)),
               format_duration(quantile(seconds, 0.95))});
  };
  row("  computed", sums.without);
  row("  with the store", sums.with);
  page.lines(table.text().string());
  page.row("ratio", fmt::format("{:.2f} of the mean", share_of(mean(sums.with), mean(sums.without))));
}

void print_report(const BenchSettings& settings, const Sums& sums, const Replay& replay, const std::string& device) {
  const Traffic traffic = traffic_of(replay);
  Page page;
  page.wrap("", device);
  page.wrap("", fmt::format("{} prompts of {} tokens in all, {} blocks ({} distinct) of {}", sums.requests, sums.tokens,
                            sums.blocks, sums.distinct_blocks, format_size(settings.replay.chunk_bytes)));
  page.section(fmt::format("{:.1f} % of the tokens were in the store", 100 * share_of(sums.hit_tokens, sums.tokens)));
  print_first_tokens(page, sums);
  page.row("gets", fmt::format("{} at {}, {:.0f} % of the chunks from host memory", format_size(traffic.got_bytes),
                               format_rate(share_of(static_cast<double>(traffic.got_bytes), sums.get_seconds)),
                               100 * share_of(traffic.from_host, traffic.from_host + traffic.from_drive)));
  std::string puts = fmt::format("{}, {} chunks", format_size(traffic.put_bytes), replay.put_count(kv::Outcome::done));
  if (const std::uint64_t full = replay.put_count(kv::Outcome::full); full > 0) {
    puts += fmt::format("; {} were not taken, since all of the memory waited for the drive", full);
  }
  if (const std::uint64_t evicted = replay.state().counts.evicted; evicted > 0) {
    puts += fmt::format("; {} made room for others", evicted);
  }
  page.row("puts", puts);
  page.row("get or compute",
           sums.foretold == 0
               ? std::string("no get was forecast")
               : fmt::format("right in {:.1f} % of {} cases; the others lost {} of {}",
                             100 * share_of(sums.right, sums.foretold), sums.foretold, format_duration(sums.lost),
                             format_duration(std::accumulate(sums.with.begin(), sums.with.end(), 0.0))));
  std::string paths;
  const Json by_path = paths_json(replay.bytes_by_path());
  for (const auto& [name, bytes] : by_path.items()) {
    paths += (paths.empty() ? "" : ", ") + name + " " + format_size(bytes.get<std::uint64_t>());
  }
  page.row("paths", paths.empty() ? "nothing was moved" : paths);
  if (replay.wrong_chunks() > 0) page.row("WRONG", fmt::format("{} chunks had other bytes", replay.wrong_chunks()));
  print("{}", page.shown());
}

void check_settings(const BenchSettings& settings) {
  const ReplaySettings& replay = settings.replay;
  if (!std::isfinite(replay.tokens_per_second) || replay.tokens_per_second <= 0) {
    throw Failure(fmt::format("--prefill-rate {}: expected tokens a second, more than 0", replay.tokens_per_second),
                  kUsage);
  }
  if (replay.block_tokens == 0 || settings.token_bytes == 0 ||
      settings.token_bytes > (std::uint64_t{1} << 40) / replay.block_tokens) {
    throw Failure("--block-tokens and --token-bytes: expected a block of 1 byte to 1 TiB", kUsage);
  }
  if (replay.chunk_bytes % replay.pieces != 0) {
    throw Failure(fmt::format("--pieces {}: a block of {} bytes has no {} equal pieces", replay.pieces,
                              replay.chunk_bytes, replay.pieces),
                  kUsage);
  }
  const std::uint64_t least = least_room(replay.chunk_bytes);
  if (replay.capacity_bytes < least || (replay.host_bytes > 0 && replay.host_bytes < least)) {
    throw Failure(fmt::format("--capacity {}, --host-memory {}: expected room for a block of {}, at least {}",
                              format_size(replay.capacity_bytes), format_size(replay.host_bytes),
                              format_size(replay.chunk_bytes), format_size(least)),
                  kUsage);
  }
}

int bench(BenchSettings settings) {
  settings.replay.chunk_bytes = settings.token_bytes * settings.replay.block_tokens;
  settings.replay.is_direct = !settings.is_buffered;
  check_settings(settings);
  const std::vector<TraceRequest> trace =
      read_trace(settings.trace, settings.replay.block_tokens, settings.requests_most);
  SessionSettings choice;
  choice.device = settings.device;
  const Session session = open_session(choice);
  check_gpu(session.raw(), settings.replay.gpu);
  Replay replay(session.raw(), settings.replay);
  Sums sums;
  std::unordered_set<std::uint64_t> distinct;
  {
    Progress progress(settings.trace);
    std::uint64_t bytes = 0;
    for (const TraceRequest& request : trace) {
      sums.add(replay.run(request));
      sums.blocks += request.blocks.size();
      distinct.insert(request.blocks.begin(), request.blocks.end());
      bytes += request.blocks.size() * settings.replay.chunk_bytes;
      progress.update(bytes, share_of(sums.requests, trace.size()));
    }
  }
  replay.finish();
  sums.distinct_blocks = distinct.size();
  if (settings.json) {
    Json json = report_json(settings, sums, replay);
    json["device"] = device_json(session.raw(), settings.replay.gpu);
    print_json(json);
  } else {
    print_report(settings, sums, replay, device_line(session.raw(), settings.replay.gpu));
  }
  return replay.wrong_chunks() == 0 ? kSuccess : kFailed;
}

}  // namespace

void add_kv_bench(CommandLine& command) {
  auto settings = std::make_shared<BenchSettings>();
  ReplaySettings& replay = settings->replay;
  replay.block_tokens = 512;
  replay.window_bytes = std::uint64_t{256} << 20;
  command.option("FOLDER", replay.folder, "Where the store is made, in a folder of its own that is removed at the end")
      .required();
  command.option("--trace", settings->trace, "The prompts; '-': from standard input").value_name("FILE").required();
  command.option("--prefill-rate", replay.tokens_per_second, "Tokens of a prompt that the GPU computes in a second")
      .value_name("TOKENS")
      .required();
  command.size("--capacity", replay.capacity_bytes, "Size of the store on the drive; it is allocated at once")
      .required();
  command.size("--host-memory", replay.host_bytes, "Size of the tier of host memory before the drive (default: none)");
  command.size("--token-bytes", settings->token_bytes, "Bytes of cache for each token (default: 128k, Llama 3.1 8B)");
  command.option("--block-tokens", replay.block_tokens, "Tokens of a block").default_shown();
  command.option("--pieces", replay.pieces, "Pieces of a block, which lie apart in memory: the model's layers")
      .between(1, 1024);
  command.size("--window", replay.window_bytes, "Memory that blocks are read into at a time (default: 256M)");
  command.option("--requests", settings->requests_most, "Replay only this many of the trace's first prompts");
  command.flag("--buffered", settings->is_buffered, "Use the page cache instead of direct I/O");
  command.option("--device", settings->device, "Whose memory takes part: a GPU's, or the host's in its place")
      .one_of({"auto", "cuda", "host"});
  command.option("--gpu", replay.gpu, "Which GPU").default_shown();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExamples);
  command.runs([settings] { return bench(*settings); });
}

}  // namespace penstock::tools
