// SPDX-License-Identifier: Apache-2.0

#include "model/registration.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/input.h"

namespace penstock::model {
namespace {

double pages(const Constants& constants, double bytes) {
  return std::ceil(bytes / constants[Constant::kHostPageBytes]);
}

// The cost of misses, with one translation per I/O on average.
double miss_s(const Constants& constants, double translations) {
  return (1 - cache_hit_rate(constants, translations)) * constants[Constant::kNicCacheMiss];
}

}  // namespace

std::string_view scheme_name(Scheme scheme) {
  switch (scheme) {
    case Scheme::kHostEachIo: return "host, each I/O";
    case Scheme::kHostOnce: return "host, once";
    case Scheme::kGpuOnce: return "GPU, once";
    case Scheme::kCudaHostEachIo: return "CUDA host, each I/O";
    case Scheme::kCudaHostOnce: return "CUDA host, once";
    case Scheme::kCudaHostAbsent: return "CUDA host, once, page faults";
  }
  return "";
}

void check(const RegistrationInput& input) {
  require_positive("the buffer size in bytes", input.buffer_bytes, 1e15);
  require_positive("the link bandwidth in B/s", input.link_bytes_per_s, 1e15);
  require_positive("the number of I/Os", input.ios, 1e15);
  require_not_negative("the set-up time in s", input.setup_s, 1e9);
  require_positive("the number of workers", input.workers, 1e9);
  require_positive("the number of buffers of a worker", input.buffers, 1e6);
  require_positive("the number of contexts", input.contexts, 1e6);
  require_not_negative("the gain", input.gain, 0.99);
}

double host_register_s(const Constants& constants, double bytes) {
  return constants[Constant::kHostRegisterFixed] + pages(constants, bytes) * constants[Constant::kHostRegisterPage];
}

double gpu_register_s(const Constants& constants, double bytes) {
  return constants[Constant::kGpuRegisterFixed] + constants[Constant::kGpuRegisterWalk] +
         std::ceil(bytes / constants[Constant::kGpuPageBytes]) * constants[Constant::kGpuRegisterPage];
}

double cuda_register_s(const Constants& constants, double bytes, double contexts, bool pages_there) {
  const double absent_s = pages_there ? 0 : constants[Constant::kCudaRegisterPageAbsent];
  return pages(constants, bytes) * (absent_s + contexts * constants[Constant::kCudaRegisterPage]);
}

double cache_hit_rate(const Constants& constants, double translations) {
  return std::min(1.0, constants[Constant::kNicCacheEntries] / translations);
}

Cost cost_of(Scheme scheme, const RegistrationInput& input, const Constants& constants) {
  const double bytes = input.buffer_bytes;
  const double transfer_s = bytes / input.link_bytes_per_s;
  const double host_s = host_register_s(constants, bytes);
  const double cuda_s = cuda_register_s(constants, bytes, input.contexts, true);
  switch (scheme) {
    case Scheme::kHostEachIo: return {0, host_s + miss_s(constants, input.translations()), transfer_s};
    case Scheme::kHostOnce: return {host_s, miss_s(constants, input.translations()), transfer_s};
    case Scheme::kGpuOnce: return {gpu_register_s(constants, bytes) + input.setup_s, 0, transfer_s};
    case Scheme::kCudaHostEachIo: return {0, cuda_s, transfer_s};
    case Scheme::kCudaHostOnce: return {cuda_s, 0, transfer_s};
    case Scheme::kCudaHostAbsent: return {cuda_register_s(constants, bytes, input.contexts, false), 0, transfer_s};
  }
  throw InvalidInput("there is no such way of registering");
}

// better.once + n * better.step <= share * (plain.once + n * plain.step), solved for n.
double crossover_ios(const Cost& plain, const Cost& better, double gain) {
  const double share = 1 - gain;
  const double head_start = better.once_s - share * plain.once_s;
  const double step = share * (plain.each_s + plain.transfer_s) - (better.each_s + better.transfer_s);
  if (step > 0) return std::max(0.0, head_start / step);
  return head_start <= step ? 0 : std::numeric_limits<double>::infinity();
}

// Rounding must not turn an exact 3 into a 4.
double first_io(double crossover) { return std::max(1.0, std::ceil(crossover * (1 - 1e-12))); }

double average_first_io(const Constants& constants, double setup_s) {
  double sum = 0;
  int sizes = 0;
  for (RegistrationInput input; input.buffer_bytes <= 256 << 20; input.buffer_bytes *= 2, ++sizes) {
    input.setup_s = setup_s;
    sum += first_io(
        crossover_ios(cost_of(Scheme::kHostEachIo, input, constants), cost_of(Scheme::kGpuOnce, input, constants), 0));
  }
  return sum / sizes;
}

double setup_for_average(const Constants& constants, double ios) {
  double low = 0, high = 1;
  while (average_first_io(constants, high) < ios && high < 1e9) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (average_first_io(constants, middle) < ios ? low : high) = middle;
  }
  return high;
}

}  // namespace penstock::model
