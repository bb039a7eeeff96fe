// SPDX-License-Identifier: Apache-2.0

#include "model/constants.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/input.h"

namespace penstock::model {
namespace {

constexpr std::string_view kRdma = "published for host RDMA registration; the upper end is what its examples use";
constexpr std::string_view kGpuOnce =
    "published for GPU memory registered once; fixed and walk are 50 us in its example";
constexpr std::string_view kH200 = "measured on an H200 machine, CUDA 13.0, driver 580.159, kernel 6.18";
constexpr std::string_view kPhoenix = "Phoenix, SC'25, measured there";
constexpr std::string_view kReads = "published ceiling of a drive with four lanes, 3.5, 7 and 14 GB/s";
constexpr std::string_view kWrites =
    "vendors' data sheets; published as the same ceiling as of reads, which few drives that are sold reach";
constexpr std::string_view kPoor = "fitted to the published host times of 14 GB, 109 GB, 671 GB and 67 h a week";

constexpr std::array<ConstantFacts, kConstantCount> kTable = {{
    {"host_register.fixed", 10e-6, 5e-6, 10e-6, "s", kRdma},
    {"host_register.page", 1e-6, 0.5e-6, 1e-6, "s", kRdma},
    {"host_register.page_bytes", 4096, 4096, 4096, "B", "x86-64"},
    {"gpu_register.fixed", 10e-6, 5e-6, 10e-6, "s", kGpuOnce},
    {"gpu_register.walk", 40e-6, 20e-6, 50e-6, "s", kGpuOnce},
    {"gpu_register.page", 9e-9, 1e-12, 9.2e-9, "s",
     "fitted: with it 1 GiB takes the published 200 us, 1,300 times less than host memory; also published as nothing"},
    {"gpu_register.page_bytes", 65536, 65536, 65536, "B", "published: pages of GPUs, 16 times those of hosts"},
    {"cuda_register.page", 0.13e-6, 0.09e-6, 0.16e-6, "s", kH200},
    {"cuda_register.page_absent", 2.2e-6, 2.2e-6, 2.2e-6, "s", kH200},
    {"nic_cache.entries", 64, 64, 128, "1", "published for the translation cache of a NIC"},
    {"nic_cache.miss", 3.5e-6, 2e-6, 5e-6, "s", "published for the translation cache of a NIC; the middle"},
    {"cufile.driver_open", 0.108, 0.108, 0.108, "s", kPhoenix},
    {"cufile.handle_register", 308e-6, 308e-6, 308e-6, "s", kPhoenix},
    {"cufile.buffer_register", 73.8e-6, 73.8e-6, 73.8e-6, "s", kPhoenix},
    {"drive.gen3_read", 3.5e9, 3.5e9, 3.5e9, "B/s", kReads},
    {"drive.gen3_write", 3e9, 3e9, 3.5e9, "B/s", kWrites},
    {"drive.gen4_read", 7e9, 7e9, 7e9, "B/s", kReads},
    {"drive.gen4_write", 5e9, 5e9, 7e9, "B/s", kWrites},
    {"drive.gen5_read", 14e9, 14e9, 14.5e9, "B/s", kReads},
    {"drive.gen5_write", 10e9, 10e9, 14e9, "B/s", kWrites},
    {"drive.share", 0.6, 0.4, 0.6, "1", "published: real use reaches 40-60 % of the ceiling; the upper end"},
    {"link.gpu", 55.3e9, 55.3e9, 55.4e9, "B/s", kH200},
    {"link.node", 175e9, 151e9, 200e9, "B/s", "measured on a machine with eight H200, pinned copies, one process each"},
    {"host_copy.gpu", 49e9, 39e9, 51e9, "B/s", kH200},
    {"host_copy.node", 64e9, 50e9, 64e9, "B/s", "measured on a machine with eight H200: the CPU's copies in all"},
    {"pageable_copy", 8.5e9, 8e9, 9e9, "B/s", kH200},
    {"page_cache_write", 4.4e9, 3.8e9, 5e9, "B/s", kH200},
    {"poor_host", 0.58e9, 0.48e9, 0.64e9, "B/s", kPoor},
    {"torch_save", 1e9, 0.7e9, 1e9, "B/s",
     "measured on an H200 machine, torch 2.11: 8.7 GB in 180 tensors into one file on ext4, not flushed; tmpfs: 0.7"},
    {"file.latency", 100e-6, 100e-6, 100e-6, "s", "published for one I/O through the host"},
    {"accelerator.life", 50000 * 3600.0, 50000 * 3600.0, 50000 * 3600.0, "s", "MLPerf Storage v2.0: MTTF 50,000 h"},
    {"price.gpu_hour", 4.06, 4.06, 6.88, "$/h", "published prices of an H100 and an H200"},
    {"transfer.knee", 4, 4, 4, "1", "chosen: how sharply a queue's rate bends into its ceiling"},
    {"gpu_memory", 3.35e12, 3.35e12, 3.35e12, "B/s", "published for an H100's memory"},
    {"gpu_memory.latency", 0.5e-6, 0.1e-6, 1e-6, "s", "published: below a microsecond; the middle"},
    {"pcie_link", 32e9, 32e9, 64e9, "B/s", "published for PCIe Gen4 x16; Gen5 has twice as much"},
    {"pcie_link.latency", 3e-6, 1e-6, 5e-6, "s", "published 1-5 us; the middle"},
    {"host_memory", 63e9, 63e9, 63e9, "B/s", "published for two channels of DDR5"},
    {"host_memory.latency", 20e-9, 10e-9, 30e-9, "s", "published 10-30 ns; the middle"},
    {"network.latency", 5e-6, 2e-6, 10e-6, "s", "assumed: RDMA through two switches and both NICs"},
    {"network.node", 50e9, 12.5e9, 400e9, "B/s", "assumed: a node reaches shared storage by one port of 400 Gb/s"},
}};

}  // namespace

Constants::Constants() {
  for (std::size_t i = 0; i < kConstantCount; ++i) values_[i] = kTable[i].value;
}

void Constants::set(std::string_view name, double value) {
  const auto* found = std::find_if(kTable.begin(), kTable.end(), [&](const auto& facts) { return facts.name == name; });
  if (found == kTable.end()) {
    throw InvalidInput(fmt::format("there is no constant '{}'; 'penstock-model constants' lists them", name));
  }
  require_positive(name, value, 1e18);
  values_[static_cast<std::size_t>(found - kTable.begin())] = value;
}

std::span<const ConstantFacts, kConstantCount> constant_table() { return kTable; }

const ConstantFacts& facts_of(Constant constant) { return kTable[static_cast<std::size_t>(constant)]; }

}  // namespace penstock::model
