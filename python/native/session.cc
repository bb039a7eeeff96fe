// SPDX-License-Identifier: Apache-2.0

#include "python/native/session.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "penstock/penstock.hpp"
#include "python/native/checksum.h"
#include "python/native/device_memory.h"
#include "python/native/failure.h"
#include "python/native/no_gil.h"
#include "python/native/report.h"

namespace nb = nanobind;

namespace penstock::python {

SessionHandle::SessionHandle(const nb::dict& settings, std::optional<bool> shared) : engine_(python::engine()) {
  if (shared.value_or(false) && !engine_.is_cufile()) {
    raise_value_error(
        "shared=True, but Penstock's libcufile is not in this process: start it by `python -m penstock run`");
  }
  if (shared.value_or(true) && engine_.is_cufile()) {
    if (settings.size() > 0) {
      raise_value_error(
          "this process has Penstock's libcufile, whose session all share, so that settings cannot be passed here: set "
          "them in cufile.json or the environment, or pass shared=False for a session with pinned memory of its own");
    }
    open_shared();
  } else {
    open_own(settings);
  }
}

SessionHandle::~SessionHandle() {
  if (is_ending()) return;
  close();
  if (raw_ != nullptr) engine_.session_close(raw_);
}

void SessionHandle::open_own(const nb::dict& settings) {
  penstock_config* config = nullptr;
  check(engine_.config_create(&config));
  const std::unique_ptr<penstock_config, decltype(engine_.config_close)> owner(config, engine_.config_close);
  for (const auto& [name, value] : settings) {
    const auto text = nb::cast<std::string>(nb::str(nb::handle(value)));
    check(engine_.config_set(config, nb::cast<std::string>(name).c_str(), text.c_str()));
  }
  penstock_session* opened = nullptr;
  penstock_status status{};
  {
    const NoGil no_gil;
    status = engine_.session_open(config, &opened);
    if (status.code == 0) status = engine_.session_reference(opened, &raw_);
    if (status.code != 0) engine_.session_close(opened);
  }
  check(status);
  opened_ = opened;
}

void SessionHandle::open_shared() {
  penstock_status status = own_status(PENSTOCK_CLOSED, "open the driver of cuFile, whose session is shared");
  {
    const NoGil no_gil;
    if (engine_.cufile_driver_open().err == CU_FILE_SUCCESS) {
      status = engine_.cufile_session(&raw_);
      if (status.code != 0) engine_.cufile_driver_close();
    }
  }
  check(status);
  is_shared_ = true;
}

void SessionHandle::close() {
  if (is_closed_.exchange(true)) return;
  if (is_shared_) (void)engine_.cufile_driver_close();
  if (penstock_session* const opened = opened_.exchange(nullptr)) engine_.session_close(opened);
}

namespace {

using Handle = std::shared_ptr<SessionHandle>;

void check_open(const SessionHandle& session) {
  if (session.is_closed()) raise(exception_of(own_status(PENSTOCK_CLOSED, "use the session")));
}

nb::dict info_of(const SessionHandle& session) {
  check_open(session);
  penstock_session_info info{};
  info.struct_size = sizeof info;
  check(session.engine().session_get(session.raw(), &info));
  nb::dict result;
  result["device_count"] = info.device_count;
  result["device_kinds"] = info.device_kinds;
  result["device_reason"] = info.device_reason;
  result["pinned_bytes"] = info.pinned_bytes;
  return result;
}

nb::list devices_of(const SessionHandle& session) {
  nb::list devices;
  const auto count = nb::cast<std::uint32_t>(info_of(session)["device_count"]);
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    penstock_device_info info{};
    info.struct_size = sizeof info;
    check(session.engine().device_get(session.raw(), ordinal, &info));
    nb::dict result;
    result["ordinal"] = ordinal;
    result["kind"] = info.kind;
    result["name"] = info.name;
    result["pci_address"] = info.pci_address;
    result["memory_bytes"] = info.memory_bytes;
    result["uuid"] = nb::bytes(info.uuid, sizeof info.uuid);
    result["stand_in"] = info.stand_in != 0;
    devices.append(result);
  }
  return devices;
}

nb::tuple setting_of(const SessionHandle& session, const std::string& name) {
  check_open(session);
  const char* source = "";
  const std::string value = detail::whole_text(256, [&](char* text, std::size_t capacity) {
    std::size_t length = 0;
    check(session.engine().session_setting(session.raw(), name.c_str(), text, capacity, &length, &source));
    return length;
  });
  return nb::make_tuple(value, source);
}

nb::list settings_there_are() {
  nb::list settings;
  for (std::uint32_t i = 0; i < engine().setting_count(); ++i) {
    penstock_setting setting{};
    setting.struct_size = sizeof setting;
    check(engine().setting_get(i, &setting));
    nb::dict result;
    result["name"] = setting.name;
    result["variable"] = setting.variable;
    result["default"] = setting.initial;
    result["takes"] = setting.takes;
    result["meaning"] = setting.meaning;
    settings.append(result);
  }
  return settings;
}

nb::list outlook_of(const SessionHandle& session) {
  check_open(session);
  nb::list verdicts;
  for (std::uint32_t path = 0; path < session.engine().path_count(); ++path) {
    penstock_verdict verdict{};
    verdict.struct_size = sizeof verdict;
    check(session.engine().path_outlook(session.raw(), static_cast<std::int32_t>(path), &verdict));
    verdicts.append(verdict_of(verdict));
  }
  return verdicts;
}

nb::list counters_of(const SessionHandle& session) {
  check_open(session);
  std::uint32_t count = 0;
  check(session.engine().counters(session.raw(), nullptr, 0, &count));
  std::vector<penstock_counter> counters(count + 8);
  for (penstock_counter& counter : counters) counter.struct_size = sizeof counter;
  check(session.engine().counters(session.raw(), counters.data(), static_cast<std::uint32_t>(counters.size()), &count));
  nb::list result;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, counters.size()); ++i) {
    const penstock_counter& counter = counters[i];
    nb::dict one;
    one["path"] = session.engine().path_name(counter.path);
    one["reason"] = session.engine().reason_name(counter.reason);
    one["read_bytes"] = counter.read_bytes;
    one["read_operations"] = counter.read_operations;
    one["write_bytes"] = counter.write_bytes;
    one["write_operations"] = counter.write_operations;
    result.append(one);
  }
  return result;
}

void count_save(const SessionHandle& session, const std::array<std::uint64_t, 8>& numbers) {
  check_open(session);
  const auto [saves, bytes, stood, waited, hidden, given_way, written, flushed] = numbers;
  const penstock_save_costs costs{.struct_size = sizeof costs,
                                  .reserved = 0,
                                  .saves = saves,
                                  .bytes = bytes,
                                  .stood_ns = stood,
                                  .waited_ns = waited,
                                  .hidden_ns = hidden,
                                  .given_way_ns = given_way,
                                  .written_ns = written,
                                  .flushed_ns = flushed};
  check(session.engine().count_save(session.raw(), &costs));
}

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<SessionHandle>(module, "SessionHandle")
      .def(nb::new_([](const nb::dict& settings, std::optional<bool> shared) {
             return std::make_shared<SessionHandle>(settings, shared);
           }),
           nb::arg("settings"), nb::arg("shared").none() = nb::none())
      .def("close", &SessionHandle::close, nb::call_guard<NoGil>())
      .def_prop_ro("closed", &SessionHandle::is_closed)
      .def_prop_ro("shared", &SessionHandle::is_shared)
      .def("info", &info_of)
      .def("devices", &devices_of)
      .def("setting", &setting_of)
      .def("outlook", &outlook_of)
      .def("counters", &counters_of)
      .def("count_save", &count_save)
      .def("allocate",
           [](const Handle& session, std::uint64_t size, std::uint32_t device) {
             check_open(*session);
             return std::make_unique<DeviceMemory>(session, device, size);
           })
      .def("crc32c", &crc32c_by, nb::arg("buffer").none(), nb::arg("piece_bytes"),
           nb::arg("stream").none() = nb::none())
      .def("crc32c_vector", &crc32c_vector_by, nb::arg("buffers"), nb::arg("piece_bytes"),
           nb::arg("stream").none() = nb::none())
      .def("crc32c_begin",
           [](const Handle& session, const std::vector<nb::object>& buffers, std::uint64_t piece_bytes,
              nb::handle stream) {
             check_open(*session);
             return std::make_unique<PendingChecksums>(session, buffers, piece_bytes, stream);
           },
           nb::arg("buffers"), nb::arg("piece_bytes"), nb::arg("stream").none() = nb::none())
      .def("fingerprints_begin",
           [](const Handle& session, const std::vector<nb::object>& buffers, nb::handle stream) {
             check_open(*session);
             return std::make_unique<PendingFingerprints>(session, buffers, stream);
           },
           nb::arg("buffers"), nb::arg("stream").none() = nb::none());
  nb::class_<PendingChecksums>(module, "PendingChecksums").def("result", &PendingChecksums::result);
  nb::class_<PendingFingerprints>(module, "PendingFingerprints").def("result", &PendingFingerprints::result);
  nb::class_<DeviceMemory>(module, "DeviceMemory",
                           "Memory of one of a session's devices. Valid until it is deleted or the session is closed.")
      .def_prop_ro("address",
                   [](const DeviceMemory& memory) { return reinterpret_cast<std::uintptr_t>(memory.data()); })
      .def_prop_ro("nbytes", &DeviceMemory::size)
      .def_prop_ro("device", &DeviceMemory::device)
      .def("__len__", &DeviceMemory::size)
      .def("upload", &DeviceMemory::upload, nb::arg("source"), nb::arg("offset") = 0,
           "Copy host memory (bytes, an array) to `offset`. Returns when the copy is done.")
      .def("download", &DeviceMemory::download, nb::arg("offset") = 0, nb::arg("size") = -1,
           "`size` bytes from `offset` on (-1: to the end), as bytes.");
  module.def("crc32c", &crc32c, nb::arg("buffer").none(), nb::arg("piece_bytes"));
  module.def("fingerprint", &fingerprint, nb::arg("buffer").none());
  module.def("crc32c_of_all", &crc32c_of_all, nb::arg("pieces"));
  module.def("settings", &settings_there_are, "All settings there are: a list of dicts.");
}

}  // namespace penstock::python
