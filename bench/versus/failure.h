// SPDX-License-Identifier: Apache-2.0

// How a comparison gives up: one sentence, and the exit code that goes with it. Caught in main().
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace penstock::versus {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;   // As a shell has it.
constexpr int kNotApplicable = 77;  // This machine, as it is, cannot run the comparison at all.

class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& sentence, int exit_code = kFailed)
      : std::runtime_error(sentence), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

[[noreturn]] inline void fail_errno(const std::string& subject, const char* step) {
  throw Failure(subject + ": could not " + step + ": " + std::strerror(errno));
}

}  // namespace penstock::versus
