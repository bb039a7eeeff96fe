// SPDX-License-Identifier: Apache-2.0

// How a sub-command gives up: with one sentence for people and an exit code. The tool's parts throw it, and main()
// catches it once. The library does not know of it.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

#include "penstock/penstock.hpp"

namespace penstock::tools {

// The tool's exit codes.
constexpr int kSuccess = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNotApplicable = 77;  // This machine does not have the thing that was asked for.

class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& sentence, int exit_code = kFailed)
      : std::runtime_error(sentence), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

[[noreturn]] inline void fail(const std::string& subject, const Status& status) {
  throw Failure((subject.empty() ? "''" : subject) + ": " + status.message(),
                status.is(PENSTOCK_NO_DEVICE) ? kNotApplicable : kFailed);
}

// Throws the sentence of an errno, worded like the library's. `step` is a literal: a verb phrase.
[[noreturn]] inline void fail_errno(const std::string& subject, const char* step, int error_number = errno) {
  fail(subject, Status(penstock_status{PENSTOCK_DOMAIN_OS, 0, error_number, step}));
}

inline void require(const Status& status, const std::string& subject) {
  if (!status.ok()) fail(subject, status);
}

template <typename T>
T require(Result<T> result, const std::string& subject) {
  if (!result) fail(subject, result.error());
  return std::move(*result);
}

}  // namespace penstock::tools
