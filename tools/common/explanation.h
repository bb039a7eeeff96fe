// SPDX-License-Identifier: Apache-2.0

// Explains how a file's bytes would travel, and why no better path is taken: the facts of the file, the verdict of
// every path on it, and the plan of a request. For `penstock explain` and `gdscheck -f`.
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
  std::vector<std::string> variables;  // NAME=VALUE, for the program in question on a captured machine.
  unsigned gpu = 0;
  bool is_write = false;
  bool direct = false;
  bool json = false;
  std::string memory = "device";
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: from the offset to the end of the file, at most kSampleSize.
};

// The plan of the request; nothing if no path would take it.
struct RequestPlan {
  std::uint64_t size = 0;
  std::string text;
  std::optional<Choice> choice;
};

// Why a path does not serve: the reason's stable name, a sentence, and what to do or "".
struct Refusal {
  std::string reason, sentence, remedy;
};

struct Explanation {
  FileInfo info;
  // Bytes of the file in the page cache, if the kernel reports them (Linux 6.5).
  std::optional<std::uint64_t> cached;
  std::vector<Verdict> verdicts;  // Best first.
  std::string required;           // The one path that may serve (PENSTOCK_REQUIRE), or "".
  DirectAnswer direct;
  RequestPlan plan;
  std::optional<facts::Finding> stand_in;  // Why host memory takes a GPU's place, if it does.

  bool may_serve(const Verdict& verdict) const;
  Refusal refusal_of(const Verdict& verdict) const;  // For a path that may serve, why it is slower than it could be.
  const Verdict* chosen() const;                     // Null if no path may serve.
};

// Looks at a file. The session must have opened the GPU of the settings. Throws a Failure for a file that cannot be
// used and for a read past its end.
Explanation look_at(const ExplainSettings& settings, const Session& session);

// The reason for the number of threads.
// True for an obstacle of the drive or its file system that stops p2pdma, whatever the kernel and the device are.
bool is_of_storage(const core::Finding& finding);
const char* why(const Choice& choice);

// The whole explanation, as text and as JSON.
void print_in_full(const ExplainSettings& settings, const Session& session, const Explanation& told);
Json explanation_json(const ExplainSettings& settings, const Session& session, const Explanation& told);

// Prints the explanations of files of the captured machine in settings.root, which are named by their absolute paths
// there.
int explain_captured(const ExplainSettings& settings, const std::vector<std::string>& files, bool in_full);

}  // namespace penstock::tools
