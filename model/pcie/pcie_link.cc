// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/pcie_link.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "topology/pci_device.h"

namespace penstock::model {
namespace {

constexpr std::array<unsigned, 6> kWidths = {1, 2, 4, 8, 16, 32};

// From the sixth generation on, packets travel in FLITs of a fixed size, which also carry the acknowledgements.
constexpr unsigned kFirstInFlits = 6;
constexpr double kFlitPacketsAndLinkBytes = 242;

double payload_of(const PcieLink& link, const PcieConstants& constants) {
  return link.max_payload != 0 ? link.max_payload : usual_max_payload(link.generation, constants);
}

// The specification lets a receiver acknowledge after so many packets; fewer for fewer lanes.
double ack_factor(double payload, unsigned width) {
  if (payload <= 256) return width <= 4 ? 1.4 : width == 8 ? 2.5 : 3.0;
  return width <= 8 ? 1.0 : 2.0;
}

// Symbol times between two Acks, as the specification's tables compute them (its sections on Ack latency limits).
double ack_interval_symbols(unsigned generation, unsigned width, double payload) {
  constexpr double kPacketOverhead = 28;
  const double inside = generation == 1 ? 19 : generation == 2 ? 70 : 115;
  return (payload + kPacketOverhead) * ack_factor(payload, width) / width + inside;
}

double framed(const PcieLink& link, double header, const PcieConstants& constants) {
  return link.generation >= kFirstInFlits ? header - constants.flit_framing_bytes : header;
}

}  // namespace

bool is_generation(double value) { return value >= 1 && value <= core::kPciGenerations && value == std::floor(value); }
bool is_width(double value) { return std::find(kWidths.begin(), kWidths.end(), value) != kWidths.end(); }
bool is_packet_size(double value) {
  return value >= 128 && value <= 4096 && std::exp2(std::floor(std::log2(value))) == value;
}

unsigned usual_max_payload(unsigned generation, const PcieConstants& constants) {
  return static_cast<unsigned>(generation >= 5 ? constants.max_payload_bytes_gen5 : constants.max_payload_bytes_gen4);
}

double raw_rate(const PcieLink& link) {
  return core::PciLink::of_generation(link.generation, link.width).bytes_per_second();
}

double packet_rate(const PcieLink& link, const PcieConstants& constants) {
  const double skips = constants.skip_symbols / constants.skip_interval_symbols;
  if (link.generation >= kFirstInFlits)
    return raw_rate(link) * (constants.flit_packet_bytes / kFlitPacketsAndLinkBytes - skips);
  const double interval = ack_interval_symbols(link.generation, link.width, payload_of(link, constants));
  // One Ack and one flow-control update in each interval.
  const double control = 2 * constants.control_packet_bytes / interval;
  return raw_rate(link) * (1 - control - skips);
}

double usable_rate(const PcieLink& link, Carriage carriage, const PcieConstants& constants) {
  const double window = carriage == Carriage::written ? link.credit_bytes : link.read_window_bytes;
  const double rate = packet_rate(link, constants);
  if (window <= 0 || link.round_trip_seconds <= 0) return rate;
  return std::min(rate, window / link.round_trip_seconds);
}

double header_bytes(const PcieLink& link, Carriage carriage, const PcieConstants& constants) {
  const bool is_written = carriage == Carriage::written;
  return framed(link, is_written ? constants.header_write_bytes : constants.header_completion_bytes, constants);
}

double wire_bytes(double bytes, double payload, double header) {
  return payload > 0 ? bytes + std::ceil(bytes / payload) * header : bytes;
}

std::optional<PcieLink> link_of_rate(double bytes_per_second, unsigned likely_width) {
  constexpr double kTolerance = 0.03;
  for (const unsigned width : {likely_width, 16U, 8U, 4U, 2U, 1U, 32U}) {
    for (unsigned generation = 1; generation <= core::kPciGenerations; ++generation) {
      PcieLink link;
      link.generation = generation;
      link.width = width;
      if (std::abs(raw_rate(link) / bytes_per_second - 1) < kTolerance) return link;
    }
  }
  return std::nullopt;
}

}  // namespace penstock::model
