// SPDX-License-Identifier: Apache-2.0

// Every number that the contention model assumes, with its unit and source. One table: `penstock-model constants`
// prints it, and the sensitivity analysis varies each. Nothing else in model/pcie contains a number about hardware,
// except rates in a topology file or a built-in machine. Constants shared with other models have their row, under the
// same name, in model/constants.h.
#pragma once

#include <string_view>
#include <vector>

#include "model/constants.h"

namespace penstock::model {

struct PcieConstants {
  double header_write_bytes = 24;
  double header_completion_bytes = 20;
  double header_request_bytes = 24;
  double control_packet_bytes = 8;
  double skip_interval_symbols = 1538;
  double skip_symbols = 4;
  double flit_packet_bytes = 236;
  double flit_framing_bytes = 8;
  double max_payload_bytes_gen4 = 256;
  double max_payload_bytes_gen5 = 512;
  double max_read_request_bytes = 512;
  double switch_latency_ns = 110;
  double root_latency_ns = 250;
  double port_buffer_bytes = 65536;

  double interleave_bytes = 2048;
  double stream_change_ns = 75;
  double crossbar_up_gigabytes_per_second = 128;
  double crossbar_down_gigabytes_per_second = 256;
  double class_weight_drive_to_nic = 65;
  double class_weight_nic_to_gpu = 25;
  double class_weight_gpu_to_nic = 10;

  double fence_single_ns = 1000;
  double fence_single_bytes = 16384;
  double fence_coalesced_ns = 350;
  double fence_coalesced_bytes = 65536;
  double iommu_strict_nic_loss = 0.125;

  double drive_gen3_read_bytes_per_s = facts_of(Constant::kDriveGen3Read).value;
  double drive_gen3_write_bytes_per_s = facts_of(Constant::kDriveGen3Write).value;
  double drive_gen4_read_bytes_per_s = facts_of(Constant::kDriveGen4Read).value;
  double drive_gen4_write_bytes_per_s = facts_of(Constant::kDriveGen4Write).value;
  double drive_gen5_read_bytes_per_s = facts_of(Constant::kDriveGen5Read).value;
  double drive_gen5_write_bytes_per_s = facts_of(Constant::kDriveGen5Write).value;
  double drive_access_us = 80;
  double drive_command_us = 0.4;
  double drive_jitter = 0.1;
  double direct_request_us = 10;
  double host_request_us = 100;

  double host_memory_gigabytes_per_second = 200;
  double host_copy_bytes_per_s = facts_of(Constant::kHostCopyNode).value;
  double socket_link_gigabytes_per_second = 60;
  double nic_wire_share = 0.8;
  double storage_server_gigabytes_per_second = 50;
};

struct PcieConstantRow {
  const char* name;
  double PcieConstants::*value;
  double low;  // The ends of the source's range; both equal the value if it gives none.
  double high;
  const char* unit;
  const char* source;
  bool is_shared = false;  // Its row is in constant_table().
};
const std::vector<PcieConstantRow>& pcie_constant_rows();

// The table in the models' common form, without the rows that constant_table() has already.
std::vector<ConstantFacts> pcie_constant_facts();
// All constants of all models, as users know them.
std::vector<ConstantFacts> all_constant_facts();
// Sets a constant by name, for users. Throws InvalidInput for an unknown name, or a value that is not a number from 0
// on.
void set_pcie_constant(PcieConstants& constants, std::string_view name, double value);

}  // namespace penstock::model
