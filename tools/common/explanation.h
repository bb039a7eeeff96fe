// SPDX-License-Identifier: Apache-2.0

// How a file's bytes would travel, and why not better: the facts of the file, the verdict of every path on it, and the
// plan of a request. For `penstock explain`, and for `gdscheck -f`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/direct_answer.h"

namespace penstock::tools {

struct ExplainSettings {
  std::string file;
  std::string root;                    // A captured machine; "" for this one.
  std::vector<std::string> variables;  // NAME=VALUE, of the process that is asked about on a captured machine.
  unsigned gpu = 0;
  bool is_write = false;
  bool direct = false;
  bool json = false;
  std::string memory = "device";
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: the file from the offset on, up to kSampleSize.
};

// The request that is planned; nothing where no path would take it.
struct RequestPlan {
  std::uint64_t size = 0;
  std::string text;
  std::optional<Choice> choice;
};

struct Explanation {
  FileInfo info;
  std::optional<std::uint64_t> cached;  // Bytes of the file in the page cache, where the kernel tells (Linux 6.5).
  std::vector<Verdict> verdicts;        // Best first.
  DirectAnswer direct;
  RequestPlan plan;

  const Verdict* chosen() const;  // Null where no path is usable.
};

// The session must have its GPU. Throws a Failure for a file that cannot be used, and for a read past its end.
Explanation look_at(const ExplainSettings& settings, const Session& session);

// Why so many threads take part.
const char* why(const Choice& choice);

// All of it, for people and for programs.
void print_in_full(const ExplainSettings& settings, const Session& session, const Explanation& told);
Json explanation_json(const ExplainSettings& settings, const Session& session, const Explanation& told);

// Prints all of one file. The exit code: 1 where no path is usable.
int explain(const ExplainSettings& settings);
// Prints all of files of the captured machine in settings.root, named by their absolute paths there.
int explain_captured(const ExplainSettings& settings, const std::vector<std::string>& files);

}  // namespace penstock::tools
