// SPDX-License-Identifier: Apache-2.0

// A DeepSpeed configuration's values as DeepSpeed takes them, and what there is to say about them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/check/deepspeed_document.h"
#include "tools/check/deepspeed_keys.h"
#include "tools/common/severity.h"

namespace penstock::tools {

struct DeepSpeedFinding {
  Severity severity = Severity::note;  // A warning: DeepSpeed runs, but not as the file reads. An error: it ends.
  const char* code = "";               // Stable.
  std::string key;                     // "aio.thread_count"
  std::string value;                   // As the file has it; "" where it has none.
  int line = 0;                        // 0 where the key is not in the file.
  int column = 0;                      // 0 where the line alone is known.
  std::string expected;                // "" where nothing else is.
  std::string cause;
  std::string remedy;  // "" where nothing need be done.
};

class DeepSpeedConfig {
 public:
  explicit DeepSpeedConfig(DeepSpeedDocument document) : document_(std::move(document)) {}

  // By a full name, "aio.block_size"; null where the file has none. JSON's null counts as none.
  const DeepSpeedValue* find(std::string_view name) const;
  int line(const std::string& name) const;

  // Of the table's keys: the default where the file has none, or one of another kind.
  bool is_on(std::string_view block, std::string_view name) const;
  std::int64_t number(std::string_view block, std::string_view name) const;
  std::string word(std::string_view block, std::string_view name) const;  // In small letters.

  int stage() const;
  bool has_writer() const;
  bool is_fast_writer() const { return has_writer() && word("checkpoint.writer", "type") == "fast"; }
  bool swaps_parameters() const { return stage() == 3 && word("zero_optimization.offload_param", "device") == "nvme"; }
  bool swaps_optimizer() const {
    return stage() == 3 && word("zero_optimization.offload_optimizer", "device") == "nvme";
  }
  bool asks_for_gds() const { return is_on("aio", "use_gds"); }
  // Whether anything in this configuration reads aio.use_gds.
  bool uses_gds() const { return asks_for_gds() && (swaps_parameters() || is_fast_writer()); }

 private:
  DeepSpeedDocument document_;
};

// Whether DeepSpeed takes the value for the key; a whole number may still be out of range.
bool is_of_kind(const DeepSpeedKey& key, const DeepSpeedValue& value);

class DeepSpeedFindings {
 public:
  explicit DeepSpeedFindings(const DeepSpeedConfig& config) : config_(config) {}

  struct Text {
    std::string expected;
    std::string cause;
    std::string remedy;
  };
  void add(Severity severity, const char* code, const std::string& key, Text text);
  std::vector<DeepSpeedFinding> worst_first() const;

 private:
  const DeepSpeedConfig& config_;
  std::vector<DeepSpeedFinding> list_;
};

void check_deepspeed_keys(const DeepSpeedConfig& config, DeepSpeedFindings& findings);   // Each by itself.
void check_deepspeed_rules(const DeepSpeedConfig& config, DeepSpeedFindings& findings);  // What they mean together.

}  // namespace penstock::tools
