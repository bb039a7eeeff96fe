// SPDX-License-Identifier: Apache-2.0

// NVIDIA's library and its kernel module nvidia-fs move the bytes, if the two serve the file's storage directly. A
// self-test must prove it by nvidia-fs's own counters: in its compatibility mode the library copies by the CPU as the
// bounce path does, only slower. Docs: docs/reference/direct.md.
#pragma once

#include <atomic>
#include <list>

#include "base/mutex.h"
#include "path/path.h"
#include "path/pipeline/fallback_channel.h"
#include "path/pipeline/self_test_cache.h"
#include "path/vendor/vendor_library.h"
#include "path/vendor/vendor_rules.h"

namespace penstock::core {

class VendorPath final : public Path, private PreferredTerms {
 public:
  VendorPath(Storage& storage, const VendorRules& rules) : storage_(storage), rules_(rules) {}
  ~VendorPath() override;

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  // The library handles any alignment itself.
  Shape shape(const RoutedRequest& request) override {
    return {.limits = {.chunk_max = request.chunk_max, .staged = false}};
  }
  std::uint64_t channel_bytes(const ChannelOptions& options) const override;
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;
  void forget_file(File& file) override;

  // For its channels, which exist only after a usable verdict.
  VendorLibrary& library() { return *library_; }
  // Registers a file once; a refusal is final, and concerns only that file. Takes no lock for a known file.
  Result<void*> handle_of(File& file);
  // Buffered if the path is forced although it is not direct.
  IoMode io_mode_of(const Device* device, File& file, Op op) const;

 private:
  Reason ineligible(const RoutedRequest&, const Chunk&) override { return Reason::none; }
  int refusal_errno(const Status& status) override;
  void refuse_late(const Device* device, File& file, Op op, int error) override;

  bool may_be_copied() const { return rules_.use == VendorUse::force && !rules_.strict; }
  Proof file_proof(File& file, Device& device);
  static const Result<void*>* known_handle_of(const File& file);
  Proof library_proof();
  Proof open_library() REQUIRES(library_mutex_);

  Storage& storage_;
  const VendorRules rules_;
  SelfTestCache pairs_;
  Mutex library_mutex_;
  std::atomic<bool> is_library_known_{false};  // True once the members below are set; they never change after.
  Proof library_proof_;
  std::shared_ptr<VendorLibrary> library_;
  Mutex handles_mutex_;
  // The files' handles, or the errors with which the library refused them. The files' slots point to them.
  std::list<Result<void*>> handles_ GUARDED_BY(handles_mutex_);
};

}  // namespace penstock::core
