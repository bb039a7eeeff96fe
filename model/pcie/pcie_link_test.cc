// SPDX-License-Identifier: Apache-2.0

// Compared with pcie-bench (Neugebauer et al., SIGCOMM'18). The paper gives a Gen3 x8 link 62.96 Gb/s after encoding
// and about 57.88 Gb/s for packets; its model takes 24 bytes of header for a write and 20 for a completion.
#include "model/pcie/pcie_link.h"

#include <cmath>

#include "model/pcie/test_fixture.h"

namespace penstock::model {
namespace {

constexpr double kGigabit = 1e9 / 8;
const PcieConstants kConstants;

PcieLink link_of(unsigned generation, unsigned width, unsigned payload) {
  PcieLink link;
  link.generation = generation;
  link.width = width;
  link.max_payload = payload;
  return link;
}

TEST(PcieLink, HasTheRatesOfThePaper) {
  const PcieLink link = link_of(3, 8, 256);

  EXPECT_NEAR(raw_rate(link) / kGigabit, 62.96, 0.1);
  EXPECT_NEAR(packet_rate(link, kConstants) / kGigabit, 57.88, 0.05);
}

TEST(PcieLink, DoublesWithEachGenerationAndPaysForOldEncodings) {
  EXPECT_DOUBLE_EQ(raw_rate(link_of(1, 1, 256)), 0.25e9);
  EXPECT_DOUBLE_EQ(raw_rate(link_of(2, 4, 256)), 2e9);
  EXPECT_NEAR(raw_rate(link_of(3, 16, 256)), 15.754e9, 1e6);
  EXPECT_NEAR(raw_rate(link_of(4, 16, 256)), 31.508e9, 1e6);
  EXPECT_NEAR(raw_rate(link_of(5, 16, 256)), 63.015e9, 1e6);
}

// A FLIT of 256 bytes has 236 bytes of packets, which have no framing.
TEST(PcieLink, TheSixthGenerationHasWhatItsFlitsHaveForPackets) {
  const PcieLink link = link_of(6, 16, 512);

  EXPECT_NEAR(raw_rate(link), 121e9, 1e6);
  EXPECT_NEAR(packet_rate(link, kConstants), 128e9 * 236 / 256, 0.4e9);
  EXPECT_EQ(header_bytes(link, Carriage::written, kConstants), 16);
  EXPECT_EQ(header_bytes(link, Carriage::fetched, kConstants), 12);
  EXPECT_NEAR(effective_write_rate(link, 4096, kConstants), packet_rate(link, kConstants) * 512 / 528, 1);
  EXPECT_EQ(header_bytes(link_of(5, 16, 512), Carriage::written, kConstants), 24);
}

TEST(PcieLink, AWriteOf64BytesPaysAHeaderOf24) {
  const double rate = effective_write_rate(link_of(3, 8, 256), 64, kConstants);

  EXPECT_NEAR(rate / kGigabit, 57.88 * 64 / 88, 0.05);
}

TEST(PcieLink, OneByteAboveMaxPayloadCostsAnotherPacket) {
  const PcieLink link = link_of(3, 8, 256);

  EXPECT_LT(effective_write_rate(link, 257, kConstants), effective_write_rate(link, 256, kConstants));
  EXPECT_DOUBLE_EQ(wire_bytes(257, 256, 24), 257 + 48);
}

TEST(PcieLink, CreditsAndOutstandingReadsCapWhatALinkCarries) {
  PcieLink link = link_of(5, 16, 256);
  link.credit_bytes = 8192;
  link.read_window_bytes = 32768;
  link.round_trip_seconds = 1e-6;

  EXPECT_DOUBLE_EQ(usable_rate(link, Carriage::written, kConstants), 8192e6);
  EXPECT_DOUBLE_EQ(usable_rate(link, Carriage::fetched, kConstants), 32768e6);
}

TEST(PcieLink, IsRecognisedByTheRateThatHwlocTells) {
  EXPECT_EQ(link_of_rate(31.507692e9, 16)->generation, 4U);
  EXPECT_EQ(link_of_rate(15.753846e9, 4)->generation, 5U);
  EXPECT_EQ(link_of_rate(15.753846e9, 16)->generation, 3U);
  EXPECT_FALSE(link_of_rate(0.001, 16).has_value());
}

// The simulator must match the closed form for every transfer size.
TEST(PcieLink, SimulatedTransfersFollowTheModelWithinThreePerCent) {
  for (const unsigned payload : {128U, 256U, 512U}) {
    for (const std::uint64_t bytes : {64U, 100U, 256U, 257U, 511U, 1024U, 1500U, 4096U}) {
      Machine machine = plain_machine(1, 1, 1e12);
      for (Node& node : machine.nodes) {
        node.access_seconds = node.command_seconds = 0;
        if (node.kind != NodeKind::root) node.link = link_of(3, 8, payload);
      }
      Stream stream = stream_of("nvme0", "gpu0", bytes * 20000);
      stream.io_bytes = bytes;
      stream.depth = 256;
      stream.request_seconds = 0;

      const double rate = run(machine, {stream}).bytes_per_second;

      EXPECT_NEAR(rate / effective_write_rate(link_of(3, 8, payload), static_cast<double>(bytes), kConstants), 1, 0.03)
          << bytes << " bytes, MaxPayload " << payload;
    }
  }
}

}  // namespace
}  // namespace penstock::model
