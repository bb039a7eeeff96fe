// SPDX-License-Identifier: Apache-2.0

// For tests: keys, and bytes that identify their chunk.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kv/store.h"

namespace penstock::kv {

inline Name name_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  Name name;
  for (std::size_t at = 0; at < name.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(name.data() + at, &word, 8);
  }
  return name;
}

inline std::vector<std::byte> content_of(std::uint64_t key, std::uint64_t version, std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  std::uint64_t word = key * 0x9e3779b97f4a7c15 + version;
  for (std::size_t at = 0; at < bytes; at += 8) {
    word = word * 6364136223846793005 + 1442695040888963407;
    std::memcpy(content.data() + at, &word, std::min<std::size_t>(8, bytes - at));
  }
  return content;
}

// Makes one put or get of one piece of memory.
template <typename Store, typename Call>
Outcome ask(Store& store, Call call, std::uint64_t key, std::vector<std::byte>& memory, float cost, bool is_host) {
  const iovec piece{memory.data(), memory.size()};
  Request request{.key = name_of(key), .pieces = {&piece, 1}, .cost = cost, .is_host = is_host};
  (store.*call)(each_of({&request, 1}));
  return request.outcome;
}
template <typename Store>
Outcome put(Store& store, std::uint64_t key, std::vector<std::byte> content, float cost = 0, bool is_host = false) {
  return ask(store, &Store::put, key, content, cost, is_host);
}
template <typename Store>
Outcome get(Store& store, std::uint64_t key, std::vector<std::byte>& memory, bool is_host = false) {
  return ask(store, &Store::get, key, memory, 0, is_host);
}

}  // namespace penstock::kv
