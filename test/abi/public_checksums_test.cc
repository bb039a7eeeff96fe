// SPDX-License-Identifier: Apache-2.0

// Checksums by libpenstock.so.0, from outside.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "penstock/penstock.hpp"

namespace {

using penstock::Config;
using penstock::Session;

Session on_host() { return std::move(*Session::open(Config().set("device", "host"))); }

TEST(PublicChecksumsTest, OfADevicesMemoryAreThoseOfTheBytes) {
  Session session = on_host();
  auto memory = session.allocate(0, 1 << 20);
  std::string bytes(300'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  ASSERT_TRUE(memory->upload(7, bytes.data(), bytes.size()).ok());

  std::uint32_t on_device[3] = {}, on_host[3] = {}, of_all = 0;
  ASSERT_TRUE(session.crc32c(memory->data() + 7, bytes.size(), 131072, on_device).ok());
  ASSERT_TRUE(session.crc32c(bytes.data(), bytes.size(), 131072, on_host).ok());
  ASSERT_TRUE(session.crc32c(bytes.data(), bytes.size(), bytes.size(), &of_all).ok());

  EXPECT_EQ(std::memcmp(on_device, on_host, sizeof on_host), 0);
  const std::uint32_t two = penstock_crc32c_combine(on_host[0], on_host[1], 131072);
  EXPECT_EQ(penstock_crc32c_combine(two, on_host[2], bytes.size() - 262144), of_all);
  const iovec pieces[] = {{memory->data() + 7, 131072}, {nullptr, 0}, {bytes.data() + 131072, 131072}};
  std::uint32_t of_pieces[] = {1, 1, 1}, known = 0;
  ASSERT_TRUE(session.crc32c(pieces, 3, of_pieces).ok());
  EXPECT_EQ(of_pieces[0], on_host[0]);
  EXPECT_EQ(of_pieces[1], 0u);
  EXPECT_EQ(of_pieces[2], on_host[1]);
  ASSERT_TRUE(session.crc32c("123456789", 9, 9, &known).ok());
  EXPECT_EQ(known, 0xe3069283u);
}

TEST(PublicChecksumsTest, InTheOrderOfAStreamAreTheSameAndMayBeDropped) {
  Session session = on_host();
  char bytes[] = "123456789";
  const iovec pieces[] = {{bytes, 9}, {nullptr, 0}};
  std::uint32_t sums[] = {1, 1};

  auto read = session.crc32c_begin(pieces, 2, nullptr);
  auto dropped = session.crc32c_begin(pieces, 2, nullptr);

  ASSERT_TRUE(read && dropped);
  ASSERT_TRUE(read->end(sums).ok());
  EXPECT_EQ(sums[0], 0xe3069283u);
  EXPECT_EQ(sums[1], 0u);
  EXPECT_FALSE(session.crc32c_begin(nullptr, 1, nullptr));
  EXPECT_EQ(penstock_crc32c_end(nullptr, sums).code, PENSTOCK_INVALID_ARGUMENT);
}

TEST(PublicChecksumsTest, FingerprintsAreTheSumsWithHashesBesideThem) {
  Session session = on_host();
  char bytes[] = "abc";
  const iovec pieces[] = {{bytes, 3}, {nullptr, 0}};
  std::uint32_t sums[] = {1, 1}, sum = 0;
  std::uint64_t hashes[] = {1, 1};

  auto both = session.fingerprints_begin(pieces, 2, nullptr), dropped = session.fingerprints_begin(pieces, 2, nullptr);
  auto lost = session.fingerprints_begin(pieces, 2, nullptr);

  ASSERT_TRUE(both && dropped && lost);
  ASSERT_TRUE(both->end(sums, hashes).ok());
  ASSERT_TRUE(session.crc32c(bytes, 3, 3, &sum).ok());
  EXPECT_EQ(sums[0], sum);
  EXPECT_EQ(hashes[0], 0xc219b21f4c36e355u);
  EXPECT_EQ(sums[1] + hashes[1], 0u);
  EXPECT_TRUE(lost->end(sums, reinterpret_cast<std::uint64_t*>(8)).is(PENSTOCK_BAD_POINTER));
}

TEST(PublicChecksumsTest, ThatWereBegunEndWithTheirSession) {
  penstock_config* config = nullptr;
  penstock_session* session = nullptr;
  ASSERT_EQ(penstock_config_create(&config).code, 0);
  ASSERT_EQ(penstock_config_set(config, "device", "host").code, 0);
  ASSERT_EQ(penstock_session_open(config, &session).code, 0);
  penstock_config_close(config);
  char bytes[] = "123456789";
  const iovec piece{bytes, 9};
  penstock_checksums* checksums = nullptr;
  ASSERT_EQ(penstock_crc32c_begin(session, &piece, 1, nullptr, &checksums).code, 0);
  penstock_session_close(session);

  std::uint32_t sum = 5;
  EXPECT_EQ(penstock_crc32c_end(checksums, &sum).code, PENSTOCK_CLOSED);
  EXPECT_EQ(sum, 5u);
}

TEST(PublicChecksumsTest, OfNothingAreNoneAndOfNonsenseAnError) {
  Session session = on_host();
  std::uint32_t sum = 5;
  const char byte = 1;

  EXPECT_TRUE(session.crc32c(nullptr, 0, 0, nullptr).ok());
  EXPECT_FALSE(session.crc32c(nullptr, 1, 1, &sum).ok());
  EXPECT_FALSE(session.crc32c(&byte, 1, 0, &sum).ok());
  EXPECT_FALSE(session.crc32c(&byte, 1, 1, nullptr).ok());
  EXPECT_FALSE(session.crc32c(&byte, UINT64_MAX, 1 << 20, &sum).ok());
  char other = 1;
  const iovec nowhere{nullptr, 1}, endless{&other, SIZE_MAX}, right{&other, 1};
  EXPECT_TRUE(session.crc32c(nullptr, 0, nullptr).ok());
  EXPECT_FALSE(session.crc32c(nullptr, 1, &sum).ok());
  EXPECT_FALSE(session.crc32c(&nowhere, 1, &sum).ok());
  EXPECT_FALSE(session.crc32c(&endless, 1, &sum).ok());
  EXPECT_FALSE(session.crc32c(&right, 1, nullptr).ok());
  EXPECT_EQ(sum, 5u);
}

}  // namespace
