// SPDX-License-Identifier: Apache-2.0

// Looks at what the library does once the GPU's context is gone: no call waits for ever, those that need the context
// say that it failed, and host memory is served as before.
#include "common.cuh"

namespace {

constexpr double kLongest = 5;  // Seconds of one call.
bool is_good = true;

// The first block traps after a while, if that is wanted, and so ends all.
__global__ void read_some(gpu::File file, unsigned char* out, unsigned reads, bool traps) {
  const gpu::Warp warp;
  const unsigned number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (unsigned i = 0; i < reads; ++i) {
    const auto result = file.read(warp, mix(std::uint64_t{number} << 32 | i) % file.size(), 4096, out + number * 4096);
    if (result.error != gpu::Error::none) return;
    if (traps && blockIdx.x == 0 && i == 1000) __trap();
  }
}

template <typename Call>
void call(const char* what, bool must_fail, Call work) {
  const double began = now();
  const penstock_status status = work();
  const double took = now() - began;
  char text[512] = "no error";
  if (status.code != 0) penstock_status_message(status, text, sizeof text);
  const bool is_right = took < kLongest && (status.code != 0) == must_fail;
  std::printf("  %-4s %s: %.3f s, %s\n", is_right ? "ok" : "BAD", what, took, text);
  is_good = is_good && is_right;
}

}  // namespace

bool lose_the_context(const std::string& path, bool by_trap) {
  Opened opened(path);
  Memory<unsigned char> out(1024 * 4096, true);
  const gpu::File file = opened.open({.threads = 2, .slots = 64, .ring_only = 1});
  std::vector<char> host(1 << 20);
  if (by_trap) {
    read_some<<<256, 128>>>(file, out.get(), 20'000'000, true);
    const cudaError_t result = cudaDeviceSynchronize();
    std::printf("  the kernel ended with: %s\n", cudaGetErrorString(result));
    is_good = is_good && result != cudaSuccess;
  } else {
    (void)cudaDeviceReset();
  }
  const auto read_to = [&](void* memory) {
    return penstock_read(opened.file(), memory, host.size(), 0, 0, nullptr);
  };
  call("look at the file for kernels", true, [&] {
    penstock_gpu_info info{};
    return opened.ask(info);
  });
  call("read to host memory", false, [&] { return read_to(host.data()); });
  if (by_trap) call("read to device memory", true, [&] { return read_to(out.get()); });
  call("close the file for kernels", false, [&] {
    opened.close();
    return penstock_status{};
  });
  if (by_trap) return is_good;
  // The program's next context serves kernels again.
  Memory<unsigned char> room(4 * 4096, true);
  read_some<<<1, 128>>>(opened.open({.threads = 2, .slots = 64, .ring_only = 1}), room.get(), 100, false);
  check(cudaDeviceSynchronize(), "kernels of the next context");
  const penstock_gpu_info info = opened.info();
  std::printf("  the next context: %llu reads by ring, %llu failed\n", (unsigned long long)info.ring_reads,
              (unsigned long long)info.failed_reads);
  return is_good && info.ring_reads == 400 && info.failed_reads == 0;
}
