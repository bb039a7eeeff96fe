// SPDX-License-Identifier: Apache-2.0

#include "tools/check/dma_buf.h"

#include <string>

namespace penstock::tools {
namespace {

// To register dma-bufs for reads and writes of files was proposed for Linux in 2026, and no version up to this one can
// do it. Later versions are not known here, and the number of a future interface is not guessed, so nothing is tried.
constexpr core::KernelVersion kNoneUpTo{7, 3};

core::Tristate io_uring_takes_it(const facts::Machine& machine) {
  const core::KernelVersion& kernel = machine.platform.kernel;
  return kernel.major != 0 && kernel <= kNoneUpTo ? core::Tristate::no : core::Tristate::unknown;
}

}  // namespace

void print_dma_buf(Page& page, const facts::Machine& machine) {
  if (!machine.probe || !machine.probe->dma_buf) return;
  const facts::DmaBufProbe& probe = *machine.probe->dma_buf;
  page.section("GPU memory as a dma-buf (no path uses it yet)");
  page.row("export", probe.refusal.empty() ? "works, for memory of cudaMalloc" : "refused: " + probe.refusal);
  std::string names;
  for (const std::string& name : probe.rdma_adapters) names += (names.empty() ? "" : ", ") + name;
  page.row("RDMA", names.empty() ? "no adapter here that could register it"
                                 : names + " may register it (ibv_reg_dmabuf_mr); not tried");
  page.row("io_uring", io_uring_takes_it(machine) == core::Tristate::no
                           ? "no Linux up to 7.3 takes it for files"
                           : "not known for this Linux, and not tried: its interface is not known here");
}

Json dma_buf_json(const facts::Machine& machine) {
  if (!machine.probe || !machine.probe->dma_buf) return nullptr;
  const facts::DmaBufProbe& probe = *machine.probe->dma_buf;
  return {{"exportable", probe.refusal.empty()},
          {"refusal", or_null(probe.refusal)},
          {"rdma_devices", probe.rdma_adapters},
          {"io_uring", core::tristate_name(io_uring_takes_it(machine))}};
}

}  // namespace penstock::tools
