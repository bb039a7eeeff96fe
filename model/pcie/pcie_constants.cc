// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/pcie_constants.h"

#include <fmt/format.h>

#include "model/input.h"

namespace penstock::model {
namespace {

using C = PcieConstants;
constexpr const char* kHeaders = "PCIe base specification; 64-bit addresses, no ECRC, as in pcie-bench (SIGCOMM'18)";
constexpr const char* kClasses = "published: drive to NIC gets 60-70 % when all are busy, GPU to NIC comes last";

// A row of the table that all models share.
PcieConstantRow shared(Constant constant, double C::*value) {
  const ConstantFacts& facts = facts_of(constant);
  return {facts.name.data(), value, facts.low, facts.high, facts.unit.data(), facts.source.data(), true};
}

}  // namespace

const std::vector<PcieConstantRow>& pcie_constant_rows() {
  static const std::vector<PcieConstantRow> rows = {
      {"pcie.header_write", &C::header_write_bytes, 24, 24, "B a packet", kHeaders},
      {"pcie.header_completion", &C::header_completion_bytes, 20, 20, "B a packet", kHeaders},
      {"pcie.header_request", &C::header_request_bytes, 24, 24, "B a packet", kHeaders},
      {"pcie.control_packet", &C::control_packet_bytes, 8, 8, "B",
       "PCIe base specification: Ack and flow-control packets"},
      {"pcie.skip_interval", &C::skip_interval_symbols, 1538, 1538, "symbols",
       "PCIe base specification: clock compensation"},
      {"pcie.skip", &C::skip_symbols, 4, 4, "symbols", "PCIe base specification: clock compensation"},
      {"pcie.flit_packets", &C::flit_packet_bytes, 236, 236, "B of 256",
       "PCIe base specification 6.0: a FLIT has 236 B of packets, 6 B of Ack and flow control, 8 B of CRC, 6 B of FEC"},
      {"pcie.flit_framing", &C::flit_framing_bytes, 8, 8, "B a packet",
       "PCIe base specification 6.0: in FLITs a packet has no framing, sequence number and LCRC of its own"},
      {"pcie.max_payload_gen4", &C::max_payload_bytes_gen4, 128, 512, "B", "usual setting up to Gen4"},
      {"pcie.max_payload_gen5", &C::max_payload_bytes_gen5, 256, 512, "B",
       "fits 55.3 GB/s measured on a Gen5 x16 link (H200)"},
      {"pcie.max_read_request", &C::max_read_request_bytes, 512, 512, "B", "usual setting"},
      {"pcie.switch_latency", &C::switch_latency_ns, 105, 150, "ns", "vendors' cut-through figures, 105-150 ns"},
      {"pcie.root_latency", &C::root_latency_ns, 250, 250, "ns", "pcie-bench: part of a 500 ns round trip"},
      {"pcie.port_buffer", &C::port_buffer_bytes, 65536, 65536, "B", "assumed: flow-control credits of a port"},
      {"pcie.interleave", &C::interleave_bytes, 128, 4096, "B", "calibrated: 16 packets of 128 B between changes"},
      {"pcie.stream_change", &C::stream_change_ns, 50, 100, "ns", "published; the middle of its range"},
      {"pcie.crossbar_up", &C::crossbar_up_gigabytes_per_second, 128, 128, "GB/s",
       "published for the two-switch server"},
      {"pcie.crossbar_down", &C::crossbar_down_gigabytes_per_second, 256, 256, "GB/s",
       "published for the two-switch server"},
      {"pcie.class_drive_to_nic", &C::class_weight_drive_to_nic, 60, 70, "weight", kClasses},
      {"pcie.class_nic_to_gpu", &C::class_weight_nic_to_gpu, 25, 25, "weight", kClasses},
      {"pcie.class_gpu_to_nic", &C::class_weight_gpu_to_nic, 10, 10, "weight", kClasses},
      {"pcie.fence_single", &C::fence_single_ns, 500, 1500, "ns", "published 500-1,500 ns"},
      {"pcie.fence_single_every", &C::fence_single_bytes, 16384, 16384, "B", "published: one a chunk of 16 KiB"},
      {"pcie.fence_coalesced", &C::fence_coalesced_ns, 200, 500, "ns", "published 200-500 ns"},
      {"pcie.fence_coalesced_every", &C::fence_coalesced_bytes, 65536, 65536, "B", "published: one for 64 KiB"},
      {"pcie.iommu_strict_nic_loss", &C::iommu_strict_nic_loss, 0.1, 0.15, "share",
       "published: NIC to GPU 10-15 % slower; of drives to GPU only \"no penalty\", which says nothing of the bytes: "
       "see iommu_translating in docs/reference/reasons.md"},
      shared(Constant::kDriveGen3Read, &C::drive_gen3_read_bytes_per_s),
      shared(Constant::kDriveGen3Write, &C::drive_gen3_write_bytes_per_s),
      shared(Constant::kDriveGen4Read, &C::drive_gen4_read_bytes_per_s),
      shared(Constant::kDriveGen4Write, &C::drive_gen4_write_bytes_per_s),
      shared(Constant::kDriveGen5Read, &C::drive_gen5_read_bytes_per_s),
      shared(Constant::kDriveGen5Write, &C::drive_gen5_write_bytes_per_s),
      {"pcie.drive_access", &C::drive_access_us, 60, 100, "us", "vendors' random read latency"},
      {"pcie.drive_command", &C::drive_command_us, 0.4, 0.4, "us", "2.5 million IOPS a drive"},
      {"pcie.drive_jitter", &C::drive_jitter, 0.1, 0.1, "share", "assumed: access times vary by it, evenly"},
      {"pcie.direct_request", &C::direct_request_us, 10, 10, "us", "assumed: software time of a direct request"},
      {"pcie.host_request", &C::host_request_us, 100, 100, "us", "published: about 100 us an I/O through the host"},
      {"pcie.host_memory", &C::host_memory_gigabytes_per_second, 200, 200, "GB/s",
       "eight channels of DDR5 or DDR4, in use"},
      shared(Constant::kHostCopyNode, &C::host_copy_bytes_per_s),
      {"pcie.socket_link", &C::socket_link_gigabytes_per_second, 60, 60, "GB/s", "three UPI links of 20 GB/s each way"},
      {"pcie.nic_wire_share", &C::nic_wire_share, 0.8, 0.8, "share",
       "assumed: a NIC's wire against its link; 400 Gb/s on Gen5 x16"},
      {"pcie.storage_server", &C::storage_server_gigabytes_per_second, 50, 50, "GB/s",
       "assumed: a server of the fleet fills one 400 Gb/s port"},
  };
  return rows;
}

std::vector<ConstantFacts> pcie_constant_facts() {
  const PcieConstants usual;
  std::vector<ConstantFacts> facts;
  for (const PcieConstantRow& row : pcie_constant_rows()) {
    if (row.is_shared) continue;
    facts.push_back({row.name, usual.*row.value, row.low, row.high, row.unit, row.source});
  }
  return facts;
}

std::vector<ConstantFacts> all_constant_facts() {
  std::vector<ConstantFacts> all(constant_table().begin(), constant_table().end());
  const std::vector<ConstantFacts> pcie = pcie_constant_facts();
  all.insert(all.end(), pcie.begin(), pcie.end());
  return all;
}

void set_pcie_constant(PcieConstants& constants, std::string_view name, double value) {
  require_not_negative(name, value, 1e15);
  for (const PcieConstantRow& row : pcie_constant_rows()) {
    if (row.name == name) {
      constants.*row.value = value;
      return;
    }
  }
  throw InvalidInput(fmt::format("there is no constant '{}'; 'penstock-model constants' lists them", name));
}

}  // namespace penstock::model
