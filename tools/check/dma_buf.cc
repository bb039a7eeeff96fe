// SPDX-License-Identifier: Apache-2.0

#include "tools/check/dma_buf.h"

#include <string>

#include "facts/needs.h"

namespace penstock::tools {
namespace {

core::Tristate io_uring_takes_it(const facts::Finding& need) {
  if (need.state == facts::State::unknown) return core::Tristate::unknown;
  return need.state == facts::State::pass ? core::Tristate::yes : core::Tristate::no;
}

}  // namespace

void print_dma_buf(Page& page, const facts::Machine& machine) {
  if (!machine.probe || !machine.probe->dma_buf) return;
  const facts::DmaBufProbe& probe = *machine.probe->dma_buf;
  page.section("GPU memory as a dma-buf");
  page.row("export", probe.refusal.empty() ? "works, for memory of cudaMalloc" : "refused: " + probe.refusal);
  std::string names;
  for (const std::string& name : probe.rdma_adapters) names += (names.empty() ? "" : ", ") + name;
  page.row("RDMA", names.empty() ? "no adapter here that could register it"
                                 : names + " may register it (ibv_reg_dmabuf_mr); not tried");
  page.row("io_uring", facts::need_dmabuf_kernel(machine).sentence);
}

Json dma_buf_json(const facts::Machine& machine) {
  if (!machine.probe || !machine.probe->dma_buf) return nullptr;
  const facts::DmaBufProbe& probe = *machine.probe->dma_buf;
  return {{"exportable", probe.refusal.empty()},
          {"refusal", or_null(probe.refusal)},
          {"rdma_devices", probe.rdma_adapters},
          {"io_uring", core::tristate_name(io_uring_takes_it(facts::need_dmabuf_kernel(machine)))}};
}

}  // namespace penstock::tools
