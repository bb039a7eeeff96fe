// SPDX-License-Identifier: Apache-2.0

#include "python/native/gpu_file.h"

#include "python/native/failure.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {

GpuFile::GpuFile(const File& file, penstock_gpu_options options) {
  auto handle = std::make_shared<Handle>(file.use());
  options.struct_size = sizeof options;
  options.layout = PENSTOCK_GPU_LAYOUT;
  penstock_status status{};
  {
    const NoGil no_gil;
    FileHandle& opened = *handle->file;
    status = opened.engine().gpu_open(opened.session().raw(), opened.raw(), &options, &handle->raw);
  }
  check(status, file.name());
  handle_ = std::move(handle);
}

GpuFile::Handle::~Handle() {
  if (!is_ending()) file->engine().gpu_close(raw);
}

void GpuFile::close() {
  if (handle_ == nullptr || is_ending()) return;
  std::shared_ptr<Handle> handle = std::move(handle_);
  const NoGil no_gil;
  handle.reset();
}

std::shared_ptr<GpuFile::Handle> GpuFile::use() const {
  if (handle_ == nullptr) raise(exception_of(own_status(PENSTOCK_CLOSED, "use a closed file")));
  return handle_;
}

nb::bytes GpuFile::value() const {
  const std::shared_ptr<Handle> handle = use();
  penstock_gpu_value value{};
  value.struct_size = sizeof value;
  check(handle->file->engine().gpu_get_value(handle->raw, &value));
  return nb::bytes(&value, sizeof value);
}

nb::dict GpuFile::info() const {
  std::shared_ptr<Handle> handle = use();
  const Engine& engine = handle->file->engine();
  penstock_gpu_info info{};
  info.struct_size = sizeof info;
  penstock_status status{};
  {
    const NoGil no_gil;
    status = engine.gpu_get(handle->raw, &info);
    handle.reset();  // The last one waits for kernels.
  }
  check(status);
  nb::dict result;
  result["size"] = info.size;
  result["is_leased"] = info.is_leased != 0;
  const bool has_reason = info.reason != PENSTOCK_REASON_NONE;
  result["reason"] = has_reason ? nb::object(nb::str(engine.reason_name(info.reason))) : nb::none();
  result["detail"] = info.detail;
  result["resident_bytes"] = info.resident_bytes;
  result["cache_bytes"] = info.cache_bytes;
  result["resident_reads"] = info.resident_reads;
  result["ring_reads"] = info.ring_reads;
  result["ring_path"] = engine.path_name(info.ring_path);
  result["cached_reads"] = info.cached_reads;
  result["fetched_blocks"] = info.fetched_blocks;
  result["repeated_reads"] = info.repeated_reads;
  result["failed_reads"] = info.failed_reads;
  return result;
}

void bind_gpu_file(nb::module_& module) {
  nb::class_<GpuFile>(module, "GpuFile")
      .def("__init__",
           [](GpuFile* made, const File& file, std::uint32_t device, std::uint32_t threads, std::uint32_t slots,
              std::uint32_t slot_bytes, std::uint64_t timeout_ns, std::uint64_t resident_bytes, bool may_be_stale,
              bool ring_only, std::uint64_t cache_bytes) {
             penstock_gpu_options options{};
             options.device = device;
             options.threads = threads;
             options.slots = slots;
             options.slot_bytes = slot_bytes;
             options.timeout_ns = timeout_ns;
             options.resident_bytes = resident_bytes;
             options.may_be_stale = may_be_stale ? 1 : 0;
             options.ring_only = ring_only ? 1 : 0;
             options.cache_bytes = cache_bytes;
             new (made) GpuFile(file, options);
           })
      .def("close", &GpuFile::close)
      .def("_hold", &GpuFile::hold, nb::rv_policy::take_ownership)
      .def_prop_ro("closed", &GpuFile::is_closed)
      .def("value", &GpuFile::value)
      .def("info", &GpuFile::info);
}

}  // namespace penstock::python
