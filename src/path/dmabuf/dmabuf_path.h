// SPDX-License-Identifier: Apache-2.0

// EXPERIMENTAL: no released Linux has the interface (storage/dmabuf_slots.h), and no hardware has run it. A raw drive's
// DMA engine moves bytes to and from ordinary GPU memory, which its driver exports as a dma-buf, without any module
// beside NVIDIA's own. A canary must have seen bytes arrive first, and is repeated. Files on ext4 and XFS are read from
// where they lie on their drive, under a lease. Docs: docs/reference/direct.md.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "path/dmabuf/dmabuf_buffers.h"
#include "path/dmabuf/dmabuf_file.h"
#include "path/p2pdma/outlook.h"
#include "path/path.h"
#include "path/pipeline/fallback_channel.h"
#include "path/pipeline/self_test_cache.h"

namespace penstock::core {

struct DmabufRules {
  bool strict = false;    // No fallback to bounce.
  bool direct_io = true;  // False: settings forbid direct I/O, and the path refuses.
  bool is_on = false;
  bool files = false;   // Files on ext4 and XFS are read from their drive,
  bool writes = false;  // and a store's own file is also written there.
  std::string scratch;  // A file or partition that self-tests may overwrite, or empty.
  // A canary's proof holds for so long and so many bytes: nobody tells of memory that moves.
  std::chrono::nanoseconds trusted_for = std::chrono::seconds(30);
  std::uint64_t trusted_bytes = std::uint64_t{64} << 30;
};

class DmabufPath final : public Path, private PathHooks, private PreferredTerms {
 public:
  static constexpr std::uint64_t kOperationMax = 4u << 20;     // A drive may refuse larger requests to a peer's memory.
  static constexpr std::uint64_t kMemoryMax = 256u << 20;      // A channel's own memory: kernels take up to 1 GiB.
  static constexpr std::chrono::seconds kFirstRequestMax{10};  // The exporter may take long to map memory.

  struct Seams {
    const Clock& clock = system_clock();
    DmabufFile::Opened (*open_file)(File&, DmabufDrives&, bool is_written) = open_file_on_drive;
  };

  DmabufPath(Storage& storage, std::unique_ptr<Outlook> outlook, const DmabufRules& rules, const Seams& seams);

  Verdict judge(File& file, const PointerFacts& memory, Op op) override;
  Shape shape(const RoutedRequest& request) override;
  std::uint64_t channel_bytes(const ChannelOptions& options) const override;
  Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) override;
  void forget_file(File& file) override;

  // For the path's channels.
  Storage& storage() const { return storage_; }
  const DmabufRules& rules() const { return rules_; }
  const Clock& clock() const { return seams_.clock; }
  DmabufBuffers& buffers() { return buffers_; }
  // False once distrust() was called for them.
  bool may_try(const Device* device, const DmabufDrive& drive) const;
  // A canary failed: the path no longer serves this device and drive.
  void distrust(const Device* device, const DmabufDrive& drive, const Proof& why);

 private:
  void add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size) override;
  void remove_buffer(std::uint64_t base) override { buffers_.remove(base); }
  Reason ineligible(const RoutedRequest& request, const Chunk& chunk) override;
  int refusal_errno(const Status& status) override;
  void refuse_late(const Device* device, File& file, Op op, int error) override;
  // The path keeps this of a file, in the file's slot.
  struct Known {
    std::atomic<DmabufFile*> file{nullptr};  // Set once.
    std::unique_ptr<DmabufFile> owned;       // Guarded by the path's mutex, as the rest.
    Proof why_not;
    bool is_passing = true;
    std::chrono::nanoseconds tried_at{};
  };

  Verdict while_off(const PointerFacts& memory);
  Proof kernel_proof();
  Proof file_proof(File& file, Op op);
  bool is_written(const File& file) const;
  Proof open(File& file, Known& known) REQUIRES(mutex_);
  std::uint64_t operation_max(File& file, const DmabufDrive& drive);
  static Known* known_of(File& file);
  static DmabufDrive& drive_of(File& file);
  Proof pair_proof(Device& device, File& file, Op op);
  SelfTest test(Device& device, File& file);
  Proof test_writes(class DmabufChannel& channel, const DmabufDrive& drive);

  Storage& storage_;
  const std::unique_ptr<Outlook> outlook_;
  const DmabufRules rules_;
  const Seams seams_;
  SelfTestCache pairs_;
  Mutex mutex_;  // For opening files and their drives.
  DmabufDrives drives_ GUARDED_BY(mutex_);
  DmabufBuffers buffers_;
  std::atomic<bool> refuses_{false};        // A pair was refused after its test.
  std::atomic<bool> takes_dmabufs_{false};  // True once the kernel was asked and does.
};

}  // namespace penstock::core
