// SPDX-License-Identifier: Apache-2.0

#include "model/registration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/published.h"
#include "model/words.h"

namespace penstock::model {
namespace {

using enum Constant;

constexpr double kFrontierSizeLeast = 4096, kFrontierSizeMost = 1 << 30;
constexpr double kFrontierLinksGbit[] = {10, 25, 50, 100, 200, 400, 800, 1600};

// Possible set-up costs of GPU memory besides its registration.
struct Setup {
  std::string name;  // Name of the column.
  std::string label;
  double seconds;
};

std::vector<Setup> setups(const RegistrationInput& input, const Constants& constants) {
  const double buffer_s = constants[kCuFileHandleRegister] + constants[kCuFileBufferRegister];
  std::vector<Setup> all = {
      {"none", "none, as the formulas have it", 0},
      {"cufile_registered", "cuFile: handle and buffer", buffer_s},
      {"published_three", "what makes it the third I/O, mean of 1-256 MiB", setup_for_average(constants, 3)},
      {"cufile_opened", "cuFile: driver opened, handle and buffer", constants[kCuFileDriverOpen] + buffer_s}};
  if (input.setup_s > 0) all.push_back({"given", "as given", input.setup_s});
  return all;
}

double crossover(RegistrationInput input, Scheme plain, double setup_s, double gain, const Constants& constants) {
  input.setup_s = setup_s;
  return crossover_ios(cost_of(plain, input, constants), cost_of(Scheme::kGpuOnce, input, constants), gain);
}

Json first_whole(double ios) { return std::isfinite(ios) ? number(first_io(ios)) : Json(); }

Sheet schemes_sheet(const RegistrationInput& input, const Constants& constants) {
  Sheet sheet{"schemes",
              fmt::format("Ways to register, {} I/Os", count_in_words(input.ios)),
              {{"scheme", "memory"},
               {"once_s", "once, s"},
               {"each_s", "each I/O, s"},
               {"transfer_s", "transfer, s"},
               {"total_s", "total, s"},
               {"efficiency", "R_eff"},
               {"gb_per_s", "GB/s"}},
              {}};
  for (const Scheme scheme : kSchemes) {
    const Cost cost = cost_of(scheme, input, constants);
    const double total_s = cost.total_s(input.ios);
    sheet.rows.push_back({scheme_name(scheme), cost.once_s, cost.each_s, cost.transfer_s, number(total_s),
                          number(cost.efficiency(input.ios)), number(input.ios * input.buffer_bytes / total_s / 1e9)});
  }
  return sheet;
}

Sheet crossover_sheet(const RegistrationInput& input, const Constants& constants) {
  const std::string gains = fmt::format("saves {} %", count_in_words(100 * input.gain));
  Sheet sheet{"crossover",
              "GPU memory registered once: the first I/O from which on it pays",
              {{"setup", "set-up cost besides"},
               {"setup_s", "set-up, s"},
               {"host_each", "against host each I/O"},
               {"host_each_gain", gains},
               {"cuda_each", "against CUDA host each I/O"},
               {"cuda_each_gain", gains},
               {"host_once", "against host once"},
               {"mean_1_256_mib", "host each I/O, mean of 1-256 MiB"}},
              {}};
  for (const Setup& setup : setups(input, constants)) {
    const auto at = [&](Scheme plain, double gain) {
      return first_whole(crossover(input, plain, setup.seconds, gain, constants));
    };
    sheet.rows.push_back({setup.label, setup.seconds, at(Scheme::kHostEachIo, 0), at(Scheme::kHostEachIo, input.gain),
                          at(Scheme::kCudaHostEachIo, 0), at(Scheme::kCudaHostEachIo, input.gain),
                          at(Scheme::kHostOnce, 0), average_first_io(constants, setup.seconds)});
  }
  return sheet;
}

std::vector<Column> frontier_columns(const std::vector<Setup>& all) {
  std::vector<Column> columns = {{"buffer_bytes", "buffer"}, {"link_bytes_per_s", "link"}};
  for (const Setup& setup : all) columns.push_back({"ios_" + setup.name, "number of I/Os"});
  columns.push_back({"ios_cuda", "number of I/Os"});
  columns.push_back({"efficiency_host_each", "R_eff, host each I/O"});
  columns.push_back({"efficiency_cuda_each", "R_eff, CUDA host each I/O"});
  columns.push_back({"efficiency_gpu", "R_eff, GPU once"});
  return columns;
}

std::vector<Json> frontier_row(RegistrationInput input, const std::vector<Setup>& all, const Constants& constants) {
  std::vector<Json> row = {input.buffer_bytes, input.link_bytes_per_s};
  for (const Setup& setup : all) {
    row.push_back(first_whole(crossover(input, Scheme::kHostEachIo, setup.seconds, input.gain, constants)));
  }
  row.push_back(
      first_whole(crossover(input, Scheme::kCudaHostEachIo, constants[kCuFileDriverOpen], input.gain, constants)));
  for (const Scheme scheme : {Scheme::kHostEachIo, Scheme::kCudaHostEachIo, Scheme::kGpuOnce}) {
    row.push_back(number(cost_of(scheme, input, constants).efficiency(input.ios)));
  }
  return row;
}

Sheet frontier_sheet(RegistrationInput input, const Constants& constants) {
  const std::vector<Setup> all = setups(input, constants);
  Sheet sheet{"frontier", "Frontier by buffer size and link bandwidth", frontier_columns(all), {}, true};
  for (double bytes = kFrontierSizeLeast; bytes <= kFrontierSizeMost; bytes *= 2) {
    for (const double gbit : kFrontierLinksGbit) {
      input.buffer_bytes = bytes;
      input.link_bytes_per_s = gbit * 1e9 / 8;
      sheet.rows.push_back(frontier_row(input, all, constants));
    }
  }
  return sheet;
}

std::vector<Surface> surfaces(const RegistrationInput& input, const Constants& constants) {
  std::vector<Surface> list;
  const auto add = [&](std::string title, std::string z, bool logarithmic) {
    list.push_back({std::move(title), "frontier", "buffer_bytes", "link_bytes_per_s", std::move(z), logarithmic});
  };
  const std::string gains =
      fmt::format("I/Os until GPU memory registered once saves {} % of the time", count_in_words(100 * input.gain));
  std::vector<Setup> all = setups(input, constants);
  std::rotate(all.begin(), all.begin() + 3, all.end());  // The most interesting one comes first.
  for (const Setup& setup : all) {
    add(fmt::format("{}; set-up {} ({})", gains, time_in_words(setup.seconds), setup.label), "ios_" + setup.name, true);
  }
  add("The same against host memory registered with the CUDA driver for each I/O; set-up: driver opened", "ios_cuda",
      true);
  const std::string ios = count_in_words(input.ios);
  add(fmt::format("R_eff after {} I/Os: host memory, each I/O", ios), "efficiency_host_each", false);
  add(fmt::format("R_eff after {} I/Os: CUDA host memory, each I/O", ios), "efficiency_cuda_each", false);
  add(fmt::format("R_eff after {} I/Os: GPU memory, once", ios), "efficiency_gpu", false);
  return list;
}

std::vector<Sensitivity> sensitivities(const RegistrationInput& input, const Constants& constants) {
  const auto efficiency = [input](Scheme scheme) {
    return [input, scheme](const Constants& c) { return cost_of(scheme, input, c).efficiency(input.ios); };
  };
  return {sensitivity_of("R_eff, host, each I/O", constants, efficiency(Scheme::kHostEachIo)),
          sensitivity_of("R_eff, GPU, once", constants, efficiency(Scheme::kGpuOnce)),
          sensitivity_of("R_eff, CUDA host, each I/O", constants, efficiency(Scheme::kCudaHostEachIo)),
          sensitivity_of("crossover against host each I/O with the cuFile driver opened, I/Os", constants,
                         [input](const Constants& c) {
                           return crossover(input, Scheme::kHostEachIo, c[kCuFileDriverOpen], 0, c);
                         })};
}

// Whether registering pays for the requested I/O.
std::string verdict(const RegistrationInput& input, const Constants& constants) {
  const Cost host = cost_of(Scheme::kHostEachIo, input, constants), gpu = cost_of(Scheme::kGpuOnce, input, constants);
  const double host_s = host.total_s(input.ios), gpu_s = gpu.total_s(input.ios);
  const double first = first_io(crossover_ios(host, gpu, 0));
  const bool is_worth_it = gpu_s < host_s;
  const std::string later = std::isfinite(first) ? fmt::format("; it is from I/O {} on", count_in_words(first))
                                                 : std::string("; it never is");
  return fmt::format("{} I/Os of {} for one registration: GPU memory is {}worth it, {} against {}{}.",
                     count_in_words(input.ios), size_in_words(input.buffer_bytes), is_worth_it ? "" : "not ",
                     time_in_words(gpu_s), time_in_words(host_s), is_worth_it ? "" : later);
}

}  // namespace

Report registration_report(const RegistrationInput& input, const Constants& constants, bool with_published) {
  check(input);
  Report report{"registration", "Registering memory before it can move"};
  report.inputs = {{"buffer_bytes", input.buffer_bytes},
                   {"link_bytes_per_s", input.link_bytes_per_s},
                   {"ios", input.ios},
                   {"setup_s", input.setup_s},
                   {"workers", input.workers},
                   {"buffers", input.buffers},
                   {"contexts", input.contexts},
                   {"gain", input.gain}};
  report.sheets = {schemes_sheet(input, constants), crossover_sheet(input, constants)};
  if (with_published) report.sheets.push_back(published_sheet("registration", constants));
  report.sheets.push_back(frontier_sheet(input, constants));
  report.csv_sheet = "frontier";
  report.surfaces = surfaces(input, constants);
  report.sensitivities = sensitivities(input, constants);
  report.notes = {
      verdict(input, constants),
      "Registering with a NIC is computed from published constants; it was not measured here. What the CUDA driver "
      "takes was.",
      "Without a gain asked for, the first I/O that pays does not hang on the link: both sides carry the same bytes "
      "over it. How much is saved does.",
      "R_eff is the share of the time in which bytes move; in the rest memory is registered.",
      "By the formulas alone GPU memory pays from the first I/O. The published third I/O needs the set-up cost shown.",
      fmt::format("The NIC's cache holds {} translations; with {} workers of {} buffers each in turn, {:.0f} % hit.",
                  count_in_words(constants[kNicCacheEntries]), count_in_words(input.workers),
                  count_in_words(input.buffers), 100 * cache_hit_rate(constants, input.translations()))};
  return report;
}

}  // namespace penstock::model
