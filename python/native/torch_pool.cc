// SPDX-License-Identifier: Apache-2.0

// Memory for torch.cuda.MemPool: penstock_torch_alloc() and penstock_torch_free(), which torch finds by name in this
// module and calls from any thread, with or without the GIL. They allocate memory of the chosen session by its own
// allocator, so that paths which need that (p2pdma with export_memory) can serve the tensors in it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/native/cuda.h"
#include "python/native/session.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

struct Source {
  std::shared_ptr<SessionHandle> session;
  std::vector<std::uint32_t> ordinals;  // The session's ordinals, by torch's device number.
};

// Never freed: torch frees memory at process exit.
struct Pools {
  std::mutex mutex;
  std::shared_ptr<const Source> source;  // The source of new memory.
  // The source of each piece: one of a closed session must not count as one of the next.
  std::unordered_map<void*, std::shared_ptr<const Source>> pieces;
};

Pools& pools() {
  static Pools* const all = new Pools;
  return *all;
}

// Sets the session whose memory pools use from now on: only one per process, until it is closed.
bool set_pool_session(std::shared_ptr<SessionHandle> session, std::vector<std::uint32_t> ordinals) {
  const std::scoped_lock lock(pools().mutex);
  std::shared_ptr<const Source>& known = pools().source;
  if (known != nullptr && known->session == session) return true;
  if (known != nullptr && !known->session->is_closed()) return false;
  known = std::make_shared<const Source>(Source{std::move(session), std::move(ordinals)});
  return true;
}

void* allocate(std::uint64_t size, int device) {
  const std::scoped_lock lock(pools().mutex);
  const std::shared_ptr<const Source> source = pools().source;
  const bool is_known = source != nullptr && device >= 0 && static_cast<std::size_t>(device) < source->ordinals.size();
  if (!is_known || source->session->is_closed() || is_ending()) return nullptr;
  void* memory = nullptr;
  const SessionHandle& session = *source->session;
  const std::uint32_t ordinal = source->ordinals[static_cast<std::size_t>(device)];
  if (session.engine().device_alloc(session.raw(), ordinal, size, &memory).code != 0) return nullptr;
  pools().pieces[memory] = source;
  return memory;
}

void release(void* memory, int device, std::uint64_t stream) {
  std::shared_ptr<const Source> source;
  {
    const std::scoped_lock lock(pools().mutex);
    const auto found = pools().pieces.find(memory);
    if (found == pools().pieces.end()) return;
    source = std::move(found->second);
    pools().pieces.erase(found);
  }
  if (source->session->is_closed() || is_ending()) return;  // It was freed with its session.
  // Kernels may still use the memory, and freeing it does not wait for them.
  (void)wait_for_stream(stream, memory);
  const SessionHandle& session = *source->session;
  (void)session.engine().device_free(session.raw(), source->ordinals[static_cast<std::size_t>(device)], memory);
}

}  // namespace

void bind_torch_pool(nb::module_& module) { module.def("set_pool_session", &set_pool_session); }

}  // namespace penstock::python

extern "C" {

// Returns null without a session or memory; torch then raises its out-of-memory error.
__attribute__((visibility("default"))) void* penstock_torch_alloc(ssize_t size, int device, void* /*stream*/) {
  return size > 0 ? penstock::python::allocate(static_cast<std::uint64_t>(size), device) : nullptr;
}

__attribute__((visibility("default"))) void penstock_torch_free(void* memory, ssize_t /*size*/, int device,
                                                                void* stream) {
  penstock::python::release(memory, device, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(stream)));
}

}  // extern "C"
