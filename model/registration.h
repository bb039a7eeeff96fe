// SPDX-License-Identifier: Apache-2.0

// What it costs to make memory known to a NIC or to the CUDA driver before bytes can move, and from how many I/Os on
// one way of registering pays against another. Closed forms; pure. Used by registration_report and published.
//
// Not modelled: registrations that run beside transfers, limits on locked memory, and the time to undo a registration.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/constants.h"

namespace penstock::model {

enum class Scheme {
  kHostEachIo,      // Host memory registered with the NIC for every I/O.
  kHostOnce,        // The same, registered once and kept.
  kGpuOnce,         // GPU memory registered with the NIC once, for the life of the context.
  kCudaHostEachIo,  // Host memory registered with the CUDA driver for every I/O, its pages there already.
  kCudaHostOnce,
  kCudaHostAbsent,  // Once, with page faults: its pages were not there.
};
inline constexpr Scheme kSchemes[] = {Scheme::kHostEachIo,     Scheme::kHostOnce,     Scheme::kGpuOnce,
                                      Scheme::kCudaHostEachIo, Scheme::kCudaHostOnce, Scheme::kCudaHostAbsent};
std::string_view scheme_name(Scheme scheme);

struct RegistrationInput {
  double buffer_bytes = 1 << 20;  // Of one I/O.
  double link_bytes_per_s = 12.5e9;
  double ios = 4;
  double setup_s = 0;   // Paid once beside the registration, by kGpuOnce only: a driver opened, a handle registered.
  double workers = 1;   // That share the NIC, each with host buffers of its own; GPU memory needs few translations.
  double buffers = 8;   // Of each worker, in turn.
  double contexts = 1;  // GPUs that one process holds contexts on; the CUDA driver maps into each.
  double gain = 0.1;    // How much less total time must be to call it a gain.

  double translations() const { return workers * buffers; }  // In turn on the NIC, by host memory.
};
void check(const RegistrationInput& input);  // Throws InvalidInput.

double host_register_s(const Constants& constants, double bytes);
double gpu_register_s(const Constants& constants, double bytes);
double cuda_register_s(const Constants& constants, double bytes, double contexts, bool pages_there);
double cache_hit_rate(const Constants& constants, double translations);  // Of random accesses.

// Any scheme: something once, something for each I/O, and the transfer itself.
struct Cost {
  double once_s;
  double each_s;
  double transfer_s;

  double total_s(double ios) const { return once_s + ios * (each_s + transfer_s); }
  double efficiency(double ios) const { return ios * transfer_s / total_s(ios); }  // R_eff
};
Cost cost_of(Scheme scheme, const RegistrationInput& input, const Constants& constants);

// The number of I/Os from which on `better` takes at most (1 - gain) of the time of `plain`: a real number; 0 where it
// does from the start, infinity where it never will. The first whole I/O that gains is first_io() of it.
double crossover_ios(const Cost& plain, const Cost& better, double gain);
double first_io(double crossover);

// The set-up cost with which, over buffers of 1 to 256 MiB in powers of two, GPU memory registered once pays from I/O
// number `ios` on average; and that average for a given set-up cost.
double average_first_io(const Constants& constants, double setup_s);
double setup_for_average(const Constants& constants, double ios);

}  // namespace penstock::model
