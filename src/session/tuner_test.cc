#include "session/tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace penstock::core {
namespace {

constexpr std::uint64_t kMebibyte = 1u << 20;
const Tuner::Kind kKind{Op::read, Way::buffered, 4096 * kMebibyte};

// A machine on which a mebibyte takes so long with so many hands.
struct Machine {
  std::function<double(unsigned hands)> wall_ns;
  std::function<double(unsigned hands)> cpu_ns = [](unsigned) { return 100'000.0; };
};

// Moves `bytes` by the tuner's choices; returns how many bytes were trials.
std::uint64_t move(Tuner& tuner, const Machine& machine, std::uint64_t bytes, const Tuner::Kind& kind = kKind) {
  std::uint64_t tried = 0;
  while (bytes > 0) {
    const Tuner::Choice choice = tuner.choose(kind, bytes);
    const double mebibytes = static_cast<double>(choice.bytes) / kMebibyte;
    tuner.learn(kind, choice,
                {choice.bytes, static_cast<std::uint64_t>(machine.wall_ns(choice.hands) * mebibytes),
                 static_cast<std::uint64_t>(machine.cpu_ns(choice.hands) * mebibytes)});
    if (choice.trial) tried += choice.bytes;
    bytes -= choice.bytes;
  }
  return tried;
}

TEST(TunerTest, AllHandsWhereMoreAreFaster) {
  Tuner tuner(8, 0.02);
  const Machine machine{[](unsigned hands) { return 120'000.0 / hands; }};
  EXPECT_LE(move(tuner, machine, 4096 * kMebibyte), 400 * kMebibyte);
  EXPECT_EQ(tuner.finding(kKind).hands, 8u);
  EXPECT_TRUE(tuner.finding(kKind).settled);
}

TEST(TunerTest, FewerWhereMoreStandInOneAnothersWay) {
  Tuner tuner(16, 0.02);
  const Machine machine{[](unsigned hands) { return 100'000.0 * (1 + std::abs(std::log2(hands) - 1)); }};
  (void)move(tuner, machine, 2048 * kMebibyte);
  EXPECT_EQ(tuner.finding(kKind).hands, 2u);
}

TEST(TunerTest, ThePolicySaysWhatCpuIsWorth) {
  const Machine machine{[](unsigned hands) { return 100'000.0 / hands; },
                        [](unsigned hands) { return 50'000.0 * std::sqrt(hands); }};
  Tuner hasty(8, 0.02), thrifty(8, 4);
  (void)move(hasty, machine, 2048 * kMebibyte);
  (void)move(thrifty, machine, 2048 * kMebibyte);
  EXPECT_EQ(hasty.finding(kKind).hands, 8u);
  EXPECT_EQ(thrifty.finding(kKind).hands, 1u);
}

TEST(TunerTest, NoiseDoesNotMakeItChangeItsMind) {
  Tuner tuner(8, 0.02);
  unsigned turn = 0;
  const Machine machine{[&](unsigned) { return 100'000.0 * (++turn % 2 == 0 ? 1.03 : 1.0); }};
  (void)move(tuner, machine, 1024 * kMebibyte);
  const unsigned settled = tuner.finding(kKind).hands;
  for (unsigned i = 0; i < 1000; ++i) {
    (void)move(tuner, machine, 64 * kMebibyte);
    ASSERT_EQ(tuner.finding(kKind).hands, settled);
  }
}

TEST(TunerTest, AShiftIsNoticed) {
  Tuner tuner(8, 0.02);
  (void)move(tuner, {[](unsigned hands) { return 100'000.0 / hands; }}, 1024 * kMebibyte);
  ASSERT_EQ(tuner.finding(kKind).hands, 8u);
  const Machine busy{[](unsigned hands) { return 100'000.0 * hands; }};
  for (unsigned i = 0; i < 40; ++i) (void)move(tuner, busy, 64 * kMebibyte);
  EXPECT_EQ(tuner.finding(kKind).hands, 1u);
}

TEST(TunerTest, SizesAndDirectionsAreTunedApart) {
  Tuner tuner(8, 0.02);
  const Tuner::Kind small{Op::write, Way::direct, 4 * kMebibyte};
  (void)move(tuner, {[](unsigned hands) { return 100'000.0 / hands; }}, 1024 * kMebibyte);
  for (unsigned i = 0; i < 50; ++i) {
    (void)move(tuner, {[](unsigned hands) { return 10'000.0 * hands; }}, 4 * kMebibyte, small);
  }
  EXPECT_EQ(tuner.finding(kKind).hands, 8u);
  EXPECT_EQ(tuner.finding(small).hands, 1u);
}

TEST(TunerTest, OneHandIsNoChoice) {
  Tuner tuner(1, 0.1);
  (void)move(tuner, {[](unsigned) { return 1.0; }}, 512 * kMebibyte);
  EXPECT_EQ(tuner.finding(kKind).hands, 1u);
}

}  // namespace
}  // namespace penstock::core
