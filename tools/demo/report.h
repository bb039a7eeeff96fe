// SPDX-License-Identifier: Apache-2.0

// The results of `penstock bench --every-path`, for people and for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// A path, and the settings that force it.
struct DemoVariant {
  std::string path;
  std::string how;  // "io_uring, O_DIRECT"; "" if there is only one way.
  SessionSettings session;
  bool host_memory = false;
  bool can_write = true;
  // The reason why the best path before this one is refused: a transfer would report it if this path were not forced.
  int reason = 0;
  int refused_path = -1;  // The path that is refused; -1: no path before this one is refused.
};

struct MissingVariant {
  std::string what;    // "p2pdma", "bounce write", "O_DIRECT"
  std::string reason;  // The stable name, or "".
  std::string sentence;
  std::string remedy;
};

// One operation of one variant, measured in several rounds.
struct DemoRow {
  const DemoVariant* way = nullptr;
  std::string operation;
  std::vector<double> gb_per_s;  // One for each round.
  std::vector<double> cpu_per_gb;
  double latency_us = 0;
  bool is_cached = false;  // In some round most bytes came from pages that were cached before.

  double rate() const;  // The median of the rounds.
  double low() const;
  double high() const;
  std::string name() const;  // "bounce, io_uring, O_DIRECT"
};

// Takes the same rows of another round in.
void add_round(std::vector<DemoRow>& rows, const DemoRow& of_round);

struct Fastest {
  const DemoRow* row = nullptr;          // Null if nothing was measured.
  std::vector<const DemoRow*> unbeaten;  // The others whose ranges overlap with its range.
};
// The row with the best median among those of device memory: host memory is no rival. Without `cached`, of those alone
// whose bytes did not come from cached pages.
Fastest fastest_of(const std::vector<DemoRow>& rows, const std::string& operation, bool cached);

// All that was found out.
struct DemoFound {
  std::vector<DemoRow> rows;
  std::vector<MissingVariant> missing;
  double share_of_others = 0;  // The part of the processors that other programs had meanwhile.
};
Text demo_text(const DemoFound& found);
Json demo_json(std::uint64_t size, const Json& device, const DemoFound& found);

}  // namespace penstock::tools
