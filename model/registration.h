// SPDX-License-Identifier: Apache-2.0

// The cost of registering memory with a NIC or the CUDA driver before bytes can move, and after how many I/Os one
// scheme is cheaper than another. Closed forms; pure. Used by registration_report and published.
//
// Not modelled: registrations that overlap transfers, limits on locked memory, and the time to undo a registration.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/constants.h"

namespace penstock::model {

enum class Scheme {
  kHostEachIo,      // Host memory registered with the NIC for every I/O.
  kHostOnce,        // The same, registered once and kept.
  kGpuOnce,         // GPU memory registered with the NIC once, for the life of the context.
  kCudaHostEachIo,  // Host memory registered with the CUDA driver for every I/O; its pages are present.
  kCudaHostOnce,
  kCudaHostAbsent,  // The same once, with page faults: its pages were not present.
};
inline constexpr Scheme kSchemes[] = {Scheme::kHostEachIo,     Scheme::kHostOnce,     Scheme::kGpuOnce,
                                      Scheme::kCudaHostEachIo, Scheme::kCudaHostOnce, Scheme::kCudaHostAbsent};
std::string_view scheme_name(Scheme scheme);

struct RegistrationInput {
  double buffer_bytes = 1 << 20;  // Buffer size of one I/O.
  double link_bytes_per_s = 12.5e9;
  double ios = 4;
  // One-time cost besides the registration, only for kGpuOnce: opening a driver, registering a handle.
  double setup_s = 0;
  double workers = 1;  // Workers that share the NIC, each with its own host buffers; GPU memory needs few translations.
  double buffers = 8;  // Buffers of each worker, used in turn.
  double contexts = 1;  // GPUs that one process holds contexts on; the CUDA driver maps into each.
  double gain = 0.1;    // The least reduction of the total time that counts as a gain.

  double translations() const { return workers * buffers; }  // Host-memory translations used in turn on the NIC.
};
void check(const RegistrationInput& input);  // Throws InvalidInput.

double host_register_s(const Constants& constants, double bytes);
double gpu_register_s(const Constants& constants, double bytes);
double cuda_register_s(const Constants& constants, double bytes, double contexts, bool pages_there);
double cache_hit_rate(const Constants& constants, double translations);  // The hit rate of random accesses.

// The cost of a scheme: once, and per I/O with its transfer.
struct Cost {
  double once_s;
  double each_s;
  double transfer_s;

  double total_s(double ios) const { return once_s + ios * (each_s + transfer_s); }
  double efficiency(double ios) const { return ios * transfer_s / total_s(ios); }  // R_eff
};
Cost cost_of(Scheme scheme, const RegistrationInput& input, const Constants& constants);

// The number of I/Os from which on `better` takes at most (1 - gain) of the time of `plain`: a real number; 0 if from
// the start, infinity if never. first_io() rounds it to the first whole I/O.
double crossover_ios(const Cost& plain, const Cost& better, double gain);
double first_io(double crossover);

// The set-up cost at which GPU memory registered once pays from I/O number `ios` on, averaged over buffers of 1 to 256
// MiB in powers of two; and that average for a given set-up cost.
double average_first_io(const Constants& constants, double setup_s);
double setup_for_average(const Constants& constants, double ios);

}  // namespace penstock::model
