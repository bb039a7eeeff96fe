// SPDX-License-Identifier: Apache-2.0

// Calls of cuFile for gdsio and gdscheck: the driver, a file with its handle, and failures as sentences.
#pragma once

#include <string>
#include <utility>

#include "cufile.h"
#include "penstock/cufile_session.h"
#include "penstock/penstock.hpp"
#include "tools/common/files.h"

namespace penstock::tools {

// Calls cuFileDriverOpen(). If a configuration file stops it, the sentence names file and line.
void open_cufile_driver();
// Opens the driver, and returns the session that it uses.
Session cufile_session();

// An open file, with a handle of cuFile's if one is wanted.
class CufileFile {
 public:
  CufileFile(OpenFile opened, bool wants_handle);
  CufileFile(CufileFile&& other) noexcept
      : opened_(std::move(other.opened_)), handle_(std::exchange(other.handle_, nullptr)) {}
  ~CufileFile();

  const std::string& path() const { return opened_.path; }
  int fd() const { return opened_.fd.get(); }
  CUfileHandle_t handle() const { return handle_; }

 private:
  OpenFile opened_;
  CUfileHandle_t handle_ = nullptr;
};

// Throws. `error` is a CUfileOpError or an errno.
[[noreturn]] void fail_cufile(const std::string& subject, const char* call, int error);
void require_cufile(CUfileError_t error, const std::string& subject, const char* call);

}  // namespace penstock::tools
