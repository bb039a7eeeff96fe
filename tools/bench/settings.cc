// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "facts/environment.h"
#include "penstock/penstock.hpp"
#include "tools/common/failure.h"
#include "tools/common/units.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kBlockSizeMax = std::uint64_t{1} << 30;
constexpr unsigned kThreadsMax = 1024;
constexpr unsigned kDepthMax = 4096;

void check_seconds(const char* option, double seconds) {
  if (seconds >= 0 && seconds < 1e8) return;
  throw Failure(fmt::format("{} {}: expected seconds, 0 or more", option, seconds), kUsage);
}

unsigned number_of(const std::string& name, const std::string& text) {
  if (const auto value = core::parse_number<unsigned>(text)) return *value;
  throw Failure(fmt::format("{}={}: expected a number", name, text), kUsage);
}

// Sets the flag that the word names; false if the word names no flag.
bool set_flag(BenchSettings& settings, const std::string& word) {
  if (word == "direct" || word == "buffered" || word == "automatic") {
    settings.direct = word == "direct";
    settings.buffered = word == "buffered";
  } else if (word == "warm" || word == "drop-cache") {
    settings.warm = word == "warm";
    settings.drop_cache = word == "drop-cache";
  } else if (word == "register") {
    settings.register_memory = true;
  } else {
    return false;
  }
  return true;
}

void set_one_of(std::string& setting, const std::string& name, const std::string& value,
                const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    throw Failure(fmt::format("{}={}: expected one of {}", name, value, fmt::join(known, ", ")), kUsage);
  }
  setting = value;
}

void set_variable(BenchSettings& settings, const std::string& name, const std::string& value) {
  if (facts::library_setting(name).empty()) {
    const std::string near = facts::nearest_setting(name);
    throw Failure(fmt::format("{}: is not a variable of Penstock{}", name,
                              near.empty() ? "" : fmt::format("; did you mean {}?", near)),
                  kUsage);
  }
  settings.library.emplace_back(name, value);
}

void set_value(BenchSettings& settings, const std::string& name, const std::string& value) {
  if (name == "bs") {
    const auto size = parse_size(value);
    if (!size) throw Failure(fmt::format("bs={}: expected a size such as 4096, 4k or 1M", value), kUsage);
    settings.block_size = *size;
  } else if (name == "depth") {
    settings.depth = number_of(name, value);
  } else if (name == "threads") {
    settings.threads = number_of(name, value);
  } else if (name == "memory") {
    set_one_of(settings.memory, name, value, {"device", "host"});
  } else if (name == "rw") {
    set_one_of(settings.operation, name, value, {"read", "write", "randread", "randwrite"});
  } else if (name.starts_with("PENSTOCK_")) {
    set_variable(settings, name, value);
  } else {
    throw Failure(
        fmt::format("'{}' is no setting; there are bs=, depth=, threads=, memory=, rw=, PENSTOCK_...=, direct, "
                    "buffered, automatic, warm, drop-cache and register",
                    value.empty() ? name : fmt::format("{}={}", name, value)),
        kUsage);
  }
}

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> all;
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find(',', begin), words.size());
    all.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

}  // namespace

void check_settings(const BenchSettings& settings) {
  if (settings.block_size == 0 || settings.block_size > kBlockSizeMax) {
    throw Failure(fmt::format("--bs {}: expected 1 to 1G", settings.block_size), kUsage);
  }
  if (settings.threads == 0 || settings.threads > kThreadsMax) {
    throw Failure(fmt::format("--threads {}: expected 1 to {}", settings.threads, kThreadsMax), kUsage);
  }
  if (settings.depth == 0 || settings.depth > kDepthMax) {
    throw Failure(fmt::format("--depth {}: expected 1 to {}", settings.depth, kDepthMax), kUsage);
  }
  check_seconds("--time", settings.seconds);
  if (settings.ramp) check_seconds("--ramp", *settings.ramp);
  if (!(settings.interval >= 0.01 && settings.interval < 1e6)) {
    throw Failure(fmt::format("--interval {}: expected seconds, 0.01 or more", settings.interval), kUsage);
  }
  if (settings.create && !settings.is_write()) throw Failure("--create goes with --rw write or randwrite", kUsage);
  if (!settings.require.empty() && !path_by_name(settings.require)) {
    throw Failure(fmt::format("--require: there is no path '{}'", settings.require), kUsage);
  }
  if (settings.size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - settings.offset) {
    throw Failure("--offset and --size reach past the largest file", kUsage);
  }
}

BenchSettings variant_of(const BenchSettings& base, const std::string& words) {
  BenchSettings settings = base;
  bool is_after_variable = false;
  for (const std::string& word : split(words)) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      set_value(settings, word.substr(0, equals), word.substr(equals + 1));
      is_after_variable = word.starts_with("PENSTOCK_");
    } else if (set_flag(settings, word)) {
      is_after_variable = false;
    } else if (is_after_variable) {
      settings.library.back().second += "," + word;
    } else {
      set_value(settings, word, "");
    }
  }
  check_settings(settings);
  return settings;
}

}  // namespace penstock::tools
