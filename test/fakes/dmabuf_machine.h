// SPDX-License-Identifier: Apache-2.0

// A machine for the path dmabuf, but for its GPU (fake_gpu.h): a kernel that takes dma-bufs, and a partition that
// self-tests may overwrite.
#pragma once

#include "fakes/fake_storage.h"
#include "fakes/named_scratch.h"

namespace penstock::core {

class DmabufMachine {
 public:
  // Must outlive the storage.
  void run(FakeStorage& storage) {
    storage.dmabufs = &kernel_;
    storage.takes_named_scratch = true;
  }
  const std::string& scratch() const { return scratch_.name(); }
  unsigned requests_in_place() const { return kernel_.lent_requests; }

 private:
  FakeDmabufs kernel_;
  NamedScratch scratch_;
};

}  // namespace penstock::core
