// SPDX-License-Identifier: Apache-2.0

// The arithmetic of one PCIe link: the raw rate from lanes and generation, and the rate left after packet headers,
// MaxPayload, MaxReadRequest, Ack and flow-control traffic and credits. After pcie-bench (Neugebauer et al.,
// SIGCOMM'18); from the sixth generation on from the packet bytes of a FLIT. Pure. It models one direction at a time;
// the simulator models sharing.
#pragma once

#include <cstdint>
#include <optional>

#include "model/pcie/pcie_constants.h"

namespace penstock::model {

struct PcieLink {
  unsigned generation = 0;          // 1 to 7; 0: no PCIe link.
  unsigned width = 0;               // Lanes: 1, 2, 4, 8, 16 or 32.
  unsigned max_payload = 0;         // Bytes; 0: usual_max_payload().
  unsigned max_read_request = 512;  // Bytes.
  double credit_bytes = 0;          // Limit of unacknowledged posted bytes; 0: unlimited.
  double read_window_bytes = 0;     // Limit of outstanding read bytes (tags times request size); 0: unlimited.
  double round_trip_seconds = 0;    // Time until a credit or a completion returns.
};

// How a transfer moves: written by the sender, or fetched by the receiver.
enum class Carriage : std::uint8_t { written, fetched };

bool is_generation(double value);
bool is_width(double value);
bool is_packet_size(double value);  // A power of two from 128 to 4096.
unsigned usual_max_payload(unsigned generation, const PcieConstants& constants);

// Bytes a second each way: after symbol encoding, and after Ack, flow control and clock compensation.
double raw_rate(const PcieLink& link);
double packet_rate(const PcieLink& link, const PcieConstants& constants);
// The same, also limited by credits or outstanding reads.
double usable_rate(const PcieLink& link, Carriage carriage, const PcieConstants& constants);

double header_bytes(const PcieLink& link, Carriage carriage, const PcieConstants& constants);
// The wire bytes of `bytes` in packets of at most `payload`.
double wire_bytes(double bytes, double payload, double header);

// The link for a raw rate from hwloc. Half the lanes of the next generation have the same rate, so the usual width of
// such a device decides.
std::optional<PcieLink> link_of_rate(double bytes_per_second, unsigned likely_width);

}  // namespace penstock::model
