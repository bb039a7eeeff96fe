// SPDX-License-Identifier: Apache-2.0

// Paged blocks: reads one range of a file into pieces scattered over a GPU's memory, and writes it from them.
//
//   scattered FILE [ROUNDS] (FILE: overwritten, 1 GiB; is in the page cache afterwards)
//
// Each row is a size of chunks and of their pieces. Variants take turns of 1 GiB each, with as many chunks in flight as
// a queue takes: read into pieces; read whole, into memory without gaps; written from pieces; checksums of the pieces,
// all of a batch by one call; checksums a call for each piece. Rates are medians of the turns, with lowest and highest.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <penstock/penstock.hpp>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::uint64_t kAll = 1ull << 30;
constexpr unsigned kDepth = 8;  // Chunks in flight.

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "scattered: %s\n", what.c_str());
  std::exit(1);
}
template <typename T>
T& need(penstock::Result<T>& result) {
  if (!result) give_up(result.error().message());
  return *result;
}
void need(const penstock::Status& status) {
  if (!status.ok()) give_up(status.message());
}

struct Fixture {
  const penstock::File& file;
  penstock::Session& session;
  penstock::Queue& queue;
  std::byte* memory;
};

// Returns the pieces of all chunks in order; their places in memory are shuffled.
std::vector<iovec> pieces_of(std::byte* memory, std::uint64_t piece_bytes) {
  std::vector<iovec> pieces(kAll / piece_bytes);
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = {memory + i * piece_bytes, piece_bytes};
  std::shuffle(pieces.begin(), pieces.end(), std::mt19937(1));
  return pieces;
}

// Moves all chunks, kDepth of them in flight.
void move_all(const Fixture& fixture, penstock_op op, const std::vector<iovec>& pieces, std::uint64_t chunk_bytes) {
  const std::size_t each = chunk_bytes / pieces[0].iov_len;
  std::uint64_t next = 0, moved = 0;
  unsigned in_flight = 0;
  while (next < kAll || in_flight > 0) {
    for (; next < kAll && in_flight < kDepth; next += chunk_bytes, ++in_flight) {
      penstock::Request request = fixture.file.request(op, nullptr, 0, static_cast<std::int64_t>(next));
      request.pieces = &pieces[next / chunk_bytes * each];
      request.piece_count = static_cast<std::uint32_t>(each);
      if (each == 1) {
        request.base = request.pieces->iov_base;
        request.size = chunk_bytes;
        request.pieces = nullptr;
        request.piece_count = 0;
      }
      need(fixture.queue.submit(request));
    }
    penstock::Completion done[kDepth];
    auto count = fixture.queue.reap(done, kDepth, 1);
    in_flight -= need(count);
    for (unsigned i = 0; i < *count; ++i) {
      need(penstock::Status(done[i].status));
      moved += done[i].report.bytes;
    }
  }
  if (moved != kAll) give_up("moved " + std::to_string(moved) + " bytes of " + std::to_string(kAll));
}

double gb_per_second(const std::function<void()>& turn) {
  const auto began = std::chrono::steady_clock::now();
  turn();
  return static_cast<double>(kAll) / 1e9 /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void compare(const Fixture& fixture, std::uint64_t chunk_bytes, std::uint64_t piece_bytes, unsigned rounds) {
  const std::vector<iovec> scattered = pieces_of(fixture.memory, piece_bytes);
  const std::vector<iovec> whole = pieces_of(fixture.memory, chunk_bytes);
  std::vector<std::uint32_t> together(scattered.size()), apart(scattered.size());
  const std::size_t batch = kDepth * chunk_bytes / piece_bytes;
  const std::vector<std::pair<const char*, std::function<void()>>> kinds = {
      {"read into pieces", [&] { move_all(fixture, PENSTOCK_READ, scattered, chunk_bytes); }},
      {"read whole", [&] { move_all(fixture, PENSTOCK_READ, whole, chunk_bytes); }},
      {"written from pieces", [&] { move_all(fixture, PENSTOCK_WRITE, scattered, chunk_bytes); }},
      {"checksums by batches",
       [&] {
         for (std::size_t i = 0; i < scattered.size(); i += batch) {
           need(fixture.session.crc32c(&scattered[i], static_cast<std::uint32_t>(batch), &together[i]));
         }
       }},
      {"checksums one by one", [&] {
         for (std::size_t i = 0; i < scattered.size(); ++i) {
           need(fixture.session.crc32c(scattered[i].iov_base, piece_bytes, piece_bytes, &apart[i]));
         }
       }}};
  std::vector<std::vector<double>> rates(kinds.size());
  for (unsigned round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::size_t kind = round % 2 == 0 ? i : kinds.size() - 1 - i;
      rates[kind].push_back(gb_per_second(kinds[kind].second));
    }
  }
  if (together != apart) give_up("checksums of one batch are others than those one by one");
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    std::sort(rates[i].begin(), rates[i].end());
    std::printf("%4llu MiB of %3llu KiB  %-22s %8.2f GB/s [%.2f %.2f]\n",
                static_cast<unsigned long long>(chunk_bytes >> 20), static_cast<unsigned long long>(piece_bytes >> 10),
                kinds[i].first, rates[i][rates[i].size() / 2], rates[i].front(), rates[i].back());
  }
  std::fflush(stdout);
}

void write_file(const char* name) {
  const int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  std::vector<std::uint32_t> block(1u << 20);
  std::iota(block.begin(), block.end(), 1);
  for (std::uint64_t at = 0; at < kAll; at += 4 * block.size()) {
    block[0] = static_cast<std::uint32_t>(at >> 20);
    if (write(fd, block.data(), 4 * block.size()) != static_cast<ssize_t>(4 * block.size())) give_up("write the file");
  }
  close(fd);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 3) give_up("usage: scattered FILE [ROUNDS]");
  const unsigned rounds = count == 3 ? static_cast<unsigned>(std::max(1, std::atoi(arguments[2]))) : 5;
  write_file(arguments[1]);
  const int fd = open(arguments[1], O_RDWR | O_CLOEXEC);
  auto session = penstock::Session::open();
  auto memory = need(session).allocate(0, kAll);
  auto file = session->file(fd);
  auto queue = session->queue(kDepth);
  const Fixture fixture{need(file), *session, need(queue), need(memory).data()};
  for (const std::uint64_t chunk_mib : {2u, 16u}) {
    for (const std::uint64_t piece_kib : {16u, 32u, 64u}) compare(fixture, chunk_mib << 20, piece_kib << 10, rounds);
  }
  return 0;
}
