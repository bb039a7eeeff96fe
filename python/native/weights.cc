// SPDX-License-Identifier: Apache-2.0

// Headers of safetensors files for penstock.weights: read, checked and written by src/weights.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <string>

#include "base/memory_room.h"
#include "python/native/failure.h"
#include "python/native/no_gil.h"
#include "python/native/pieces.h"
#include "weights/safetensors.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

using core::Outcome;
using core::SafetensorsHeader;

// Why a file could not be read: an errno, or the fault of its header.
struct Failure {
  int error = 0;
  core::Fault fault = {};
};

Failure read_all(int fd, char* bytes, std::uint64_t size, std::uint64_t offset) {
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got = ::pread(fd, bytes + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {errno, {}};
    if (got == 0) return {0, {"the file was cut while its header was read"}};
    done += static_cast<std::uint64_t>(got);
  }
  return {};
}

struct Found {
  Failure failure = {};
  std::uint64_t data_begin = 0;
  SafetensorsHeader header = {};
};

Found find_header(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return {{errno, {}}};
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  std::array<char, core::kSafetensorsSizeBytes> first{};
  const std::uint64_t there = std::min<std::uint64_t>(first.size(), size);
  if (Failure failure = read_all(fd, first.data(), there, 0); failure.error != 0) return {std::move(failure)};
  const auto bytes = std::as_bytes(std::span(first.data(), there));
  const Outcome<std::uint64_t> header_bytes = core::safetensors_header_size(bytes, size);
  if (!header_bytes.ok()) return {{0, header_bytes.fault()}};
  std::string json(*header_bytes, '\0');
  Failure failure = read_all(fd, json.data(), json.size(), first.size());
  if (failure.error != 0 || !failure.fault.text.empty()) return {std::move(failure)};
  const std::uint64_t begin = first.size() + json.size();
  Outcome<SafetensorsHeader> header = core::parse_safetensors(json, size - begin);
  if (!header.ok()) return {{0, header.fault()}};
  return {{}, begin, std::move(*header)};
}

[[noreturn]] void raise_failure(const Failure& failure) {
  if (failure.fault.is_shortage) throw std::bad_alloc();
  if (failure.error == 0) raise_value_error(failure.fault.text.c_str());
  errno = failure.error;
  PyErr_SetFromErrno(PyExc_OSError);
  throw nb::python_error();
}

// tensors: [(name, dtype, shape)], in any order. Returns the header's bytes, and [(name, begin, end)] in file order, as
// offsets in the file.
nb::tuple make_header(const nb::list& tensors, const std::optional<nb::dict>& metadata, std::uint64_t alignment) {
  SafetensorsHeader header = {};
  for (nb::handle each : tensors) {
    const auto name = nb::cast<std::string>(each[0]), dtype_name = nb::cast<std::string>(each[1]);
    const std::optional<core::Dtype> dtype = core::dtype_named(dtype_name);
    if (!dtype) raise_value_error(("the format has no dtype " + dtype_name).c_str());
    header.tensors.push_back({name, *dtype, nb::cast<std::vector<std::uint64_t>>(each[2])});
  }
  header.has_empty_metadata = metadata && metadata->size() == 0;
  for (const auto& [key, value] : metadata.value_or(nb::dict())) {
    header.metadata.emplace_back(nb::cast<std::string>(key), nb::cast<std::string>(value));
  }
  core::sort_as_stock(header.tensors);
  const Outcome<core::WrittenSafetensors> written = core::write_safetensors(std::move(header), alignment);
  if (!written.ok()) raise_failure({0, written.fault()});
  nb::list placed;
  for (const core::SafetensorsTensor& tensor : written->header.tensors) {
    placed.append(
        nb::make_tuple(tensor.name, written->bytes.size() + tensor.begin, written->bytes.size() + tensor.end));
  }
  return nb::make_tuple(nb::bytes(written->bytes.data(), written->bytes.size()), placed);
}

// The bytes still available on this machine or in this container; None if unknown.
nb::object available_memory() {
  const core::MemoryRoom room = core::memory_room();
  return room.total > 0 ? nb::object(nb::int_(room.available)) : nb::none();
}

// Asks for large pages for memory before it is first filled: one fault per 2 MiB instead of per 4 KiB. Only for whole
// mappings: advice for a part of a mapping splits it, and a process may have only 65,530 mappings.
void advise_large_pages(std::uint64_t address, std::uint64_t size) {
  constexpr std::uint64_t kLargePage = 2 << 20;
  const std::uint64_t begin = (address + kLargePage - 1) / kLargePage * kLargePage;
  const std::uint64_t end = (address + size) / kLargePage * kLargePage;
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

Header::Header(int fd) {
  Found found;
  {
    const NoGil no_gil;
    found = find_header(fd);
  }
  if (found.failure.error != 0 || !found.failure.fault.text.empty()) raise_failure(found.failure);
  data_begin_ = found.data_begin;
  found_ = std::move(found.header);
}

void bind_weights(nb::module_& module) {
  nb::class_<Header>(module, "Header", "The header of a safetensors file.")
      .def(nb::init<int>())
      .def_prop_ro("data_begin", &Header::data_begin)
      .def("__len__", &Header::size)
      .def("names", &Header::names)
      .def("metadata", &Header::metadata)
      .def("described", &Header::described)
      .def("find", &Header::find);
  nb::class_<Pieces>(module, "Pieces", "What is wanted of a safetensors file.")
      .def(nb::init<std::shared_ptr<const Header>, nb::object, std::uint64_t>(), nb::arg("header"),
           nb::arg("picks").none(), nb::arg("run_bytes"))
      .def_prop_ro("is_plain", &Pieces::is_plain)
      .def("dtypes", &Pieces::dtypes)
      .def("runs", &Pieces::runs)
      .def("names", &Pieces::names)
      .def("capsules", &Pieces::capsules);
  module.def("shared_name", &shared_name);
  module.def("neighbours", [](const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges,
                              std::uint64_t run_bytes, std::uint64_t page) {
    nb::list runs;
    for (const Neighbours& run : neighbours(ranges, run_bytes, page)) {
      runs.append(nb::make_tuple(run.begin, run.end, run.count));
    }
    return runs;
  });
  module.def("make_safetensors_header", &make_header);
  module.def("available_memory", &available_memory);
  module.def("advise_large_pages", &advise_large_pages);
}

}  // namespace penstock::python
