// SPDX-License-Identifier: Apache-2.0

// The arithmetic of one PCIe link: lanes and generation to bytes a second, and what packet headers, MaxPayload,
// MaxReadRequest, Ack and flow-control traffic and credits leave of it. After pcie-bench (Neugebauer et al.,
// SIGCOMM'18); from the sixth generation on by what a FLIT has for packets. Pure. It knows of one direction at a time;
// what shares a link is the simulator's affair.
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
  double credit_bytes = 0;          // Posted bytes that may be unanswered; 0: enough.
  double read_window_bytes = 0;     // Bytes of reads that may be unanswered (tags times request size); 0: enough.
  double round_trip_seconds = 0;    // Until a credit or a completion comes back.
};

// How the bytes of a transfer are carried: written by their sender, or fetched by their receiver.
enum class Carriage : std::uint8_t { written, fetched };

bool is_generation(double value);
bool is_width(double value);
bool is_packet_size(double value);  // A power of two from 128 to 4096.
unsigned usual_max_payload(unsigned generation, const PcieConstants& constants);

// Bytes a second each way: after symbol encoding, and after Ack, flow control and clock compensation.
double raw_rate(const PcieLink& link);
double packet_rate(const PcieLink& link, const PcieConstants& constants);
// The same, where credits or outstanding reads may be the limit.
double usable_rate(const PcieLink& link, Carriage carriage, const PcieConstants& constants);

double header_bytes(const PcieLink& link, Carriage carriage, const PcieConstants& constants);
// What `bytes` take on the wire in packets of at most `payload`.
double wire_bytes(double bytes, double payload, double header);

// pcie-bench's effective bandwidth of transfers of one size, back to back.
double effective_write_rate(const PcieLink& link, double bytes, const PcieConstants& constants);
double effective_read_rate(const PcieLink& link, double bytes, const PcieConstants& constants);
// Reads and writes of one size, one for one: bytes a second of each.
double effective_read_write_rate(const PcieLink& link, double bytes, const PcieConstants& constants);

// The link of a raw rate, as hwloc tells it. Half the lanes of the next generation are as fast, so the likely width
// of such a device decides.
std::optional<PcieLink> link_of_rate(double bytes_per_second, unsigned likely_width);
// By the line rate of a lane: 32.0 GT/s is generation 5.
unsigned generation_of_rate(double gigatransfers_per_second);

}  // namespace penstock::model
