// SPDX-License-Identifier: Apache-2.0

#include <sys/sysmacros.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "path/p2pdma/outlook.h"
#include "path/reasons.h"
#include "topology/direct_file.h"
#include "topology/peer_route.h"

namespace penstock::core {
namespace {

Reason reason_of(std::span<const Finding> findings) {
  const Finding* stop = first_stop(findings);
  return stop == nullptr ? Reason::none : core::reason_of(stop->obstacle);
}

class MachineOutlook final : public Outlook {
 public:
  explicit MachineOutlook(std::string directory) : directory_(std::move(directory)) {}

  Reason of_device(const DeviceFacts& device) override {
    const MutexLock lock(mutex_);
    if (!read()) return Reason::none;
    Findings findings = kernel_findings(*machine_);
    append(findings, peer_findings(*machine_, device.pci_address));
    return reason_of(findings);
  }

  Reason of_file(File& file, Op op) override {
    const std::optional<DirectFileReport> report = judge(file, op);
    return report ? reason_of(report->findings) : Reason::none;
  }

  Reason of_route(const DeviceFacts& device, File& file) override {
    const std::optional<DirectFileReport> report = judge(file, Op::read);
    if (!report || !report->storage) return Reason::none;
    const MutexLock lock(mutex_);
    if (!read()) return Reason::none;
    return reason_of(peer_route(*root_, *machine_, device.pci_address, *report->storage).findings);
  }

  // NVIDIA's driver hands out its memory's bus addresses also where an IOMMU translates: a drive then moves nothing,
  // without an error (open-gpu-kernel-modules issue 1324), so it is not even tried.
  Reason of_drive(const DeviceFacts& device, File& file) override {
    const MutexLock lock(mutex_);
    const std::optional<BlockDevice> drive = drive_of(file);
    if (!drive) return Reason::none;
    const Reason of_storage = reason_of(storage_findings(*machine_, *drive));
    if (of_storage != Reason::none) return of_storage;
    if (!device.is_nvidia) return Reason::none;
    const Findings bus = bus_findings(*machine_, device.pci_address, *drive);
    const auto translates = [](const Finding& one) { return one.obstacle == Obstacle::iommu_translating; };
    return std::any_of(bus.begin(), bus.end(), translates) ? core::reason_of(Obstacle::iommu_translating)
                                                           : Reason::none;
  }

  std::uint64_t request_max(File& file) override {
    const MutexLock lock(mutex_);
    const std::optional<BlockDevice> drive = drive_of(file);
    return drive ? drive->request_max : 0;
  }

 private:
  // Reads the machine once, when it is first needed. False if there is no /proc or /sys to read.
  bool read() REQUIRES(mutex_) {
    if (machine_) return true;
    Result<Root> root = Root::open(directory_);
    if (!root.ok()) return false;
    root_.emplace(std::move(*root));
    machine_.emplace(read_peer_machine(*root_));
    return true;
  }

  std::optional<BlockDevice> drive_of(File& file) REQUIRES(mutex_) {
    if (!read()) return std::nullopt;
    const dev_t number = file.facts().block_device;
    return read_block_device(*root_, machine_->mounts, {major(number), minor(number)});
  }

  std::optional<DirectFileReport> judge(File& file, Op op) {
    const Result<DirectFile> facts = read_direct_file(file.own_descriptor());
    if (!facts.ok()) return std::nullopt;
    const MutexLock lock(mutex_);
    if (!read()) return std::nullopt;
    // The mounts are read each time, because they change.
    return judge_direct_file(*root_, MountTable::read(*root_), *facts, op);
  }

  const std::string directory_;
  Mutex mutex_;
  std::optional<Root> root_ GUARDED_BY(mutex_);
  std::optional<PeerMachine> machine_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Outlook> machine_outlook(const std::string& root) { return std::make_unique<MachineOutlook>(root); }

}  // namespace penstock::core
