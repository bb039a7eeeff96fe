// SPDX-License-Identifier: Apache-2.0

#include "python/native/torch_pool.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <vector>

#include "python/native/cuda.h"
#include "python/native/session.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

struct Source {
  std::shared_ptr<SessionHandle> session;
  std::vector<std::uint32_t> ordinals;  // In the session, by torch's number of the device.
};

// Set once and never freed: torch gives memory back when the process ends.
std::atomic<const Source*> source{nullptr};

const Source* source_of(int device) {
  const Source* const found = source.load(std::memory_order_acquire);
  const bool is_known = found != nullptr && device >= 0 && static_cast<std::size_t>(device) < found->ordinals.size();
  return is_known && !found->session->is_closed() && !is_ending() ? found : nullptr;
}

// Whether pools take memory of this session from now on: of one alone in a process, until it is closed.
bool set_pool_session(std::shared_ptr<SessionHandle> session, std::vector<std::uint32_t> ordinals) {
  const Source* const known = source.load(std::memory_order_acquire);
  if (known != nullptr && known->session == session) return true;
  if (known != nullptr && !known->session->is_closed()) return false;
  source.store(new Source{std::move(session), std::move(ordinals)}, std::memory_order_release);
  return true;
}

}  // namespace

void bind_torch_pool(nb::module_& module) { module.def("set_pool_session", &set_pool_session); }

}  // namespace penstock::python

extern "C" {

__attribute__((visibility("default"))) void* penstock_torch_alloc(ssize_t size, int device, void* /*stream*/) {
  const penstock::python::Source* const source = penstock::python::source_of(device);
  if (source == nullptr || size <= 0) return nullptr;
  void* memory = nullptr;
  const std::uint32_t ordinal = source->ordinals[static_cast<std::size_t>(device)];
  const penstock::python::SessionHandle& session = *source->session;
  const penstock_status status =
      session.engine().device_alloc(session.raw(), ordinal, static_cast<std::uint64_t>(size), &memory);
  return status.code == 0 ? memory : nullptr;  // Torch says that the memory is out.
}

__attribute__((visibility("default"))) void penstock_torch_free(void* memory, ssize_t /*size*/, int device,
                                                                void* stream) {
  const penstock::python::Source* const source = penstock::python::source_of(device);
  if (source == nullptr || memory == nullptr) return;  // It went with its session.
  const penstock::python::SessionHandle& session = *source->session;
  // Kernels may still use it: taking its mapping away would not wait for them.
  (void)penstock::python::wait_for_stream(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(stream)), memory);
  (void)session.engine().device_free(session.raw(), source->ordinals[static_cast<std::size_t>(device)], memory);
}

}  // extern "C"
