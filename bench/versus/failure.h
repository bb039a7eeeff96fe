// SPDX-License-Identifier: Apache-2.0

// The exception that ends a comparison: one sentence and an exit code. main() catches it.
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace penstock::versus {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;   // The shell's code for SIGINT.
constexpr int kNotApplicable = 77;  // This machine cannot run the comparison.

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
