// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/calls.h"

#include <dlfcn.h>

#include "bench/versus/failure.h"

namespace penstock::versus {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Calls load_calls(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Failure(path + ": could not be loaded: " + ::dlerror(), kUsage);
  Calls calls{};
  calls.name = path;
  const auto bind = [&](const char* name, auto& function) {
    if (!find(library, name, function)) throw Failure(path + ": it lacks " + name, kUsage);
  };
  bind("cuFileDriverOpen", calls.driver_open);
  bind("cuFileHandleRegister", calls.register_handle);
  bind("cuFileHandleDeregister", calls.deregister_handle);
  bind("cuFileBufRegister", calls.register_buffer);
  bind("cuFileBufDeregister", calls.deregister_buffer);
  bind("cuFileRead", calls.read);
  bind("cuFileWrite", calls.write);
  bind("cuFileBatchIOSetUp", calls.batch_open);
  bind("cuFileBatchIOSubmit", calls.batch_submit);
  bind("cuFileBatchIOGetStatus", calls.batch_status);
  bind("cuFileBatchIODestroy", calls.batch_close);
  bind("cuFileReadAsync", calls.read_async);
  bind("cuFileStreamRegister", calls.register_stream);
  bind("cuFileStreamDeregister", calls.deregister_stream);
  if (!find(library, "penstock_cufile_session", calls.session)) return calls;
  bind("penstock_cufile_file", calls.file);
  bind("penstock_device_alloc", calls.device_alloc);
  bind("penstock_device_upload", calls.device_upload);
  bind("penstock_device_download", calls.device_download);
  bind("penstock_queue_open", calls.queue_open);
  bind("penstock_queue_submit", calls.queue_submit);
  bind("penstock_queue_reap", calls.queue_reap);
  bind("penstock_queue_close", calls.queue_close);
  return calls;
}

penstock_session* Calls::opened_session() const {
  penstock_session* opened = nullptr;
  if (const penstock_status status = session(&opened); status.code != 0) {
    throw Failure(name + ": could not " + status.step);
  }
  return opened;
}

}  // namespace penstock::versus
