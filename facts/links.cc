// SPDX-License-Identifier: Apache-2.0

// Judges the PCIe links of GPUs, drives and NICs: the negotiated speed against the most that device and slot can do.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "facts/examination.h"
#include "facts/judgement.h"

namespace penstock::facts {
namespace {

using core::PciDevice;

bool is_below(const core::PciLink& link, const core::PciLink& most) {
  return link.width < most.width || link.gigatransfers_per_second + 0.1 < most.gigatransfers_per_second;
}

// With what the encoding leaves of the link for bytes, which is the most that a drive behind it can take or give.
std::string text_of(const core::PciLink& link) {
  const std::string text = fmt::format("x{} at {} GT/s", link.width, link.gigatransfers_per_second);
  if (link.generation() == 0) return text;
  return fmt::format("{} (PCIe {}.0, at most {:.1f} GB/s)", text, link.generation(), link.bytes_per_second() / 1e9);
}

// The fastest link that device and slot can make together; the device's own fastest if the slot does not report any.
core::PciLink most_of(const Machine& machine, const PciDevice& device) {
  core::PciLink most = device.max_link;
  const PciDevice* const slot = device.bridges.empty() ? nullptr : machine.device(device.bridges.back());
  if (slot == nullptr || slot->max_link.width == 0 || slot->max_link.gigatransfers_per_second <= 0) return most;
  most.width = std::min(most.width, slot->max_link.width);
  most.gigatransfers_per_second = std::min(most.gigatransfers_per_second, slot->max_link.gigatransfers_per_second);
  return most;
}

// The RDMA devices of a NIC.
std::string adapter_text(const Machine& machine, const std::string& pci_address) {
  std::string text;
  for (const core::RdmaDevice& one : machine.rdma) {
    if (one.pci_address == pci_address) text += (text.empty() ? "" : ", ") + one.name;
  }
  return text;
}

const char* kind_of(const PciDevice& device) { return device.is_gpu() ? "GPU" : device.is_nvme() ? "drive" : "NIC"; }

bool has_kind(const PciDevice& device) { return device.is_gpu() || device.is_nvme() || device.is_nic(); }

// GPUs slow their link down while they idle.
bool may_idle(const PciDevice& device, const core::PciLink& most) {
  return device.is_gpu() && is_below(device.current_link, most) && device.current_link.width >= most.width;
}

void judge_link(const Machine& machine, const PciDevice& device, Findings& rows) {
  Judgement row(rows, "pcie_link", fmt::format("{} {}", kind_of(device), device.address), Layer::fabric);
  row.at(device.is_nvme() ? drive_text(machine, device.address) : adapter_text(machine, device.address));
  if (device.current_link.width == 0 || device.max_link.width == 0) return row.unknown("its link is unknown");
  const core::PciLink most = most_of(machine, device);
  const std::string now = text_of(device.current_link);
  const std::string by_slot = is_below(most, device.max_link)
                                  ? fmt::format(" (the device could do {}, its slot cannot)", text_of(device.max_link))
                                  : "";
  if (!is_below(device.current_link, most)) return row.pass(now + ", the most that it can do here" + by_slot);
  const std::string sentence = fmt::format("{} of {}{}", now, text_of(most), by_slot);
  if (may_idle(device, most)) {
    return row.unknown(sentence + ": GPUs slow their link down while they idle",
                       "Look again under load: nvidia-smi -q -d PERFORMANCE, or run a transfer.");
  }
  row.fail(sentence, "Reseat the device, look for errors of its slot (dmesg | grep -i pcie), and check the firmware.");
}

}  // namespace

std::vector<const Finding*> slow_links(const Examination& examined, const core::BlockDevice& device) {
  std::vector<const Finding*> slow;
  for (const Finding& one : examined.findings) {
    const bool is_failed_link = one.state == State::fail && std::string_view(one.code) == "pcie_link";
    if (is_failed_link && !device.pci_address.empty() && one.subject.ends_with(device.pci_address))
      slow.push_back(&one);
  }
  for (const core::BlockDevice& below : device.slaves) {
    for (const Finding* const one : slow_links(examined, below)) slow.push_back(one);
  }
  return slow;
}

std::vector<LinkRates> link_rates(const Machine& machine) {
  std::vector<LinkRates> all;
  for (const PciDevice& device : machine.pci) {
    const double rate = device.current_link.bytes_per_second();
    if (!has_kind(device) || rate <= 0 || may_idle(device, most_of(machine, device))) continue;
    const std::string_view kind = kind_of(device);
    auto known = std::find_if(all.begin(), all.end(), [&](const LinkRates& one) { return one.kind == kind; });
    if (known == all.end()) known = all.insert(known, {kind, rate, rate});
    known->least = std::min(known->least, rate);
    known->most = std::max(known->most, rate);
  }
  return all;
}

void judge_links(const Machine& machine, Findings& rows) {
  for (const PciDevice& device : machine.pci) {
    // A virtual device has no link at all.
    const bool has_link = device.current_link.width != 0 || device.max_link.width != 0;
    if (has_kind(device) && has_link) judge_link(machine, device, rows);
  }
}

}  // namespace penstock::facts
