// SPDX-License-Identifier: Apache-2.0

#include "python/native/file.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/uio.h>

#include <vector>

#include "python/native/failure.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

Report finished(const penstock_status& status, const Report& report, const std::string& name) {
  if (status.code != 0) raise(exception_of(status, nb::cast(report), name));
  return report;
}

}  // namespace

File::File(std::shared_ptr<SessionHandle> session, int fd) {
  penstock_file* raw = nullptr;
  penstock_status status = own_status(PENSTOCK_CLOSED, "register the file");
  if (!session->is_closed()) {
    const NoGil no_gil;
    status = session->engine().file_register(session->raw(), fd, &raw);
  }
  check(status);
  handle_ = std::make_shared<FileHandle>(std::move(session), raw);
}

File::File(std::shared_ptr<SessionHandle> session, const std::string& name, std::uint32_t mode, std::uint32_t flags)
    : name_(name) {
  penstock_file* raw = nullptr;
  penstock_status status = own_status(PENSTOCK_CLOSED, "create the file");
  if (!session->is_closed()) {
    const NoGil no_gil;
    status = session->engine().file_create(session->raw(), name.c_str(), mode, flags, &raw);
  }
  check(status, name_);
  handle_ = std::make_shared<FileHandle>(std::move(session), raw);
}

File::File(std::shared_ptr<SessionHandle> session, const std::string& manifest) : name_(manifest) {
  penstock_file* raw = nullptr;
  penstock_status status = own_status(PENSTOCK_CLOSED, "open the striped object");
  if (!session->is_closed()) {
    const NoGil no_gil;
    status = session->engine().stripe_open(session->raw(), manifest.c_str(), 0, &raw);
  }
  check(status, name_);
  handle_ = std::make_shared<FileHandle>(std::move(session), raw);
}

File::File(std::shared_ptr<SessionHandle> session, const std::string& manifest, const penstock_stripe_options& options)
    : name_(manifest) {
  penstock_file* raw = nullptr;
  penstock_status status = own_status(PENSTOCK_CLOSED, "create the striped object");
  if (!session->is_closed()) {
    const NoGil no_gil;
    status = session->engine().stripe_create(session->raw(), manifest.c_str(), &options, &raw);
  }
  check(status, name_);
  handle_ = std::make_shared<FileHandle>(std::move(session), raw);
}

void File::close() {
  std::shared_ptr<FileHandle> last = std::move(handle_);
  handle_ = nullptr;
  const NoGil no_gil;
  last.reset();
}

std::shared_ptr<FileHandle> File::use() const {
  if (handle_ == nullptr || handle_->session().is_closed()) {
    raise(exception_of(
        own_status(PENSTOCK_CLOSED, handle_ == nullptr ? "use a closed file" : "use a file of a closed session"),
        nb::none(), name_));
  }
  return handle_;
}

Memory::Access access_for(penstock_op op) {
  return op == PENSTOCK_READ ? Memory::Access::writable : Memory::Access::read_only;
}

std::uint64_t size_in(const Memory& memory, std::int64_t size, std::int64_t buffer_offset) {
  if (buffer_offset < 0) raise_value_error("buffer_offset is below 0");
  const auto at = static_cast<std::uint64_t>(buffer_offset);
  if (at > memory.size()) raise_value_error("buffer_offset lies behind the end of the memory");
  if (size < -1) raise_value_error("size is below 0; leave it out for all of the memory");
  const std::uint64_t room = memory.size() - at;
  if (size > static_cast<std::int64_t>(room))
    raise_value_error("size and buffer_offset run past the end of the memory");
  return size < 0 ? room : static_cast<std::uint64_t>(size);
}

Report File::transfer(penstock_op op, nb::handle object, std::int64_t offset, std::int64_t size,
                      std::int64_t buffer_offset, nb::handle stream) const {
  const std::shared_ptr<FileHandle> file = use();
  const Memory memory(object, access_for(op), stream);
  const std::uint64_t bytes = size_in(memory, size, buffer_offset);
  Report report = empty_report();
  penstock_status status{};
  {
    const NoGil no_gil;
    wait_for_order(memory);
    const penstock_request request = penstock_request_of(op, file->raw(), memory.data(), bytes, offset, buffer_offset);
    status = file->engine().transfer(&request, &report.raw);
  }
  return finished(status, report, name_);
}

Report File::transfer_pieces(penstock_op op, nb::handle objects, std::int64_t offset, nb::handle stream) const {
  const std::shared_ptr<FileHandle> file = use();
  std::vector<Memory> memories;
  std::vector<iovec> pieces;
  for (nb::handle object : nb::iter(objects)) {
    const Memory& memory = memories.emplace_back(object, access_for(op), stream);
    pieces.push_back({memory.data(), memory.size()});
  }
  if (pieces.empty()) raise_value_error("there are no buffers: pass one at least");
  penstock_request request{};
  request.struct_size = sizeof request;
  request.op = op;
  request.file = file->raw();
  request.file_offset = offset;
  request.pieces = pieces.data();
  request.piece_count = static_cast<std::uint32_t>(pieces.size());
  Report report = empty_report();
  penstock_status status{};
  {
    const NoGil no_gil;
    for (const Memory& memory : memories) wait_for_order(memory);
    status = file->engine().transfer(&request, &report.raw);
  }
  return finished(status, report, name_);
}

nb::list File::explain(penstock_op op, nb::handle object, std::int64_t offset, std::int64_t size,
                       std::uint32_t device) const {
  const std::shared_ptr<FileHandle> file = use();
  penstock_request request{};
  request.struct_size = sizeof request;
  request.op = op;
  request.file = file->raw();
  request.file_offset = offset;
  request.device = device;
  request.size = size < 0 ? 0 : static_cast<std::uint64_t>(size);
  if (!object.is_none()) {
    const Memory memory(object, Memory::Access::read_only, nb::int_(-1));
    request.base = memory.data();
    request.size = size_in(memory, size, 0);
    request.device = 0;
  }
  std::vector<penstock_verdict> verdicts(file->engine().path_count());
  for (penstock_verdict& verdict : verdicts) verdict.struct_size = sizeof verdict;
  std::uint32_t count = 0;
  penstock_status status{};
  {
    const NoGil no_gil;
    status = file->engine().explain(&request, verdicts.data(), static_cast<std::uint32_t>(verdicts.size()), &count);
  }
  check(status, name_);
  nb::list result;
  for (std::uint32_t i = 0; i < count && i < verdicts.size(); ++i) result.append(verdict_of(verdicts[i]));
  return result;
}

nb::dict File::info() const {
  const std::shared_ptr<FileHandle> file = use();
  penstock_file_info info{};
  info.struct_size = sizeof info;
  check(file->engine().file_get(file->raw(), &info), name_);
  nb::dict result;
  result["size"] = info.size;
  result["readable"] = info.readable != 0;
  result["writable"] = info.writable != 0;
  result["opened_direct"] = info.opened_direct != 0;
  result["file_system"] = info.file_system;
  result["direct_memory_align"] = info.direct_memory_align;
  result["direct_offset_align"] = info.direct_offset_align;
  result["alignment_source"] = info.alignment_source;
  return result;
}

nb::dict File::stripe_info() const {
  const std::shared_ptr<FileHandle> file = use();
  penstock_stripe_info info{};
  info.struct_size = sizeof info;
  check(file->engine().stripe_get(file->raw(), &info), name_);
  nb::list members;
  for (std::uint32_t i = 0; i < info.member_count; ++i) {
    const char* name = nullptr;
    check(file->engine().stripe_member(file->raw(), i, &name, nullptr), name_);
    members.append(nb::bytes(name));
  }
  nb::dict result;
  result["object"] = info.object;
  result["size"] = info.size;
  result["stripe_bytes"] = info.stripe_bytes;
  result["members"] = members;
  return result;
}

void File::sync() const {
  const std::shared_ptr<FileHandle> file = use();
  penstock_status status{};
  {
    const NoGil no_gil;
    status = file->engine().file_sync(file->raw());
  }
  check(status, name_);
}

void File::advise_read_once() const {
  const std::shared_ptr<FileHandle> file = use();
  check(file->engine().file_advise(file->raw(), PENSTOCK_ADVICE_READ_ONCE), name_);
}

void File::publish() const {
  const std::shared_ptr<FileHandle> file = use();
  penstock_status status{};
  {
    const NoGil no_gil;
    status = file->engine().file_publish(file->raw());
  }
  check(status, name_);
}

namespace {

template <penstock_op op>
Report transfer(const File& file, nb::handle buffer, std::int64_t offset, std::int64_t size, std::int64_t buffer_offset,
                nb::handle stream) {
  return file.transfer(op, buffer, offset, size, buffer_offset, stream);
}

template <penstock_op op>
Report transfer_pieces(const File& file, nb::handle buffers, std::int64_t offset, nb::handle stream) {
  return file.transfer_pieces(op, buffers, offset, stream);
}

}  // namespace

void bind_file(nb::module_& module) {
  using Session = std::shared_ptr<SessionHandle>;
  const auto text_of = [](const nb::bytes& text) { return std::string(text.c_str(), text.size()); };
  nb::class_<File>(module, "File")
      .def("__init__", [text_of](File* file, Session session,
                                 const nb::bytes& manifest) { new (file) File(std::move(session), text_of(manifest)); })
      .def("__init__",
           [text_of](File* file, Session session, const nb::bytes& manifest, const std::vector<nb::bytes>& folders,
                     std::uint64_t size, std::uint64_t stripe_bytes, std::uint32_t mode, std::uint32_t flags) {
             std::vector<const char*> names;
             for (const nb::bytes& folder : folders) names.push_back(folder.c_str());
             penstock_stripe_options options{};
             options.struct_size = sizeof options;
             options.folder_count = static_cast<std::uint32_t>(names.size());
             options.folders = names.data();
             options.size = size;
             options.stripe_bytes = stripe_bytes;
             options.mode = mode;
             options.flags = flags;
             new (file) File(std::move(session), text_of(manifest), options);
           })
      .def(nb::init<Session, int>(), nb::arg("session"), nb::arg("fd"))
      .def(
          "__init__",
          [](File* file, Session session, const nb::bytes& name, std::uint32_t mode, std::uint32_t flags) {
            new (file) File(std::move(session), std::string(name.c_str(), name.size()), mode, flags);
          },
          nb::arg("session"), nb::arg("name"), nb::arg("mode"), nb::arg("flags"))
      .def("close", &File::close)
      .def_prop_ro("closed", &File::is_closed)
      .def_prop_rw(
          "_name", [](const File& file) { return nb::bytes(file.name().data(), file.name().size()); },
          [text_of](File& file, const nb::bytes& name) { file.set_name(text_of(name)); })
      .def("read", &transfer<PENSTOCK_READ>, nb::arg("buffer").none(), nb::arg("offset") = 0, nb::kw_only(),
           nb::arg("size") = -1, nb::arg("buffer_offset") = 0, nb::arg("stream").none() = nb::none())
      .def("write", &transfer<PENSTOCK_WRITE>, nb::arg("buffer").none(), nb::arg("offset") = 0, nb::kw_only(),
           nb::arg("size") = -1, nb::arg("buffer_offset") = 0, nb::arg("stream").none() = nb::none())
      .def("readv", &transfer_pieces<PENSTOCK_READ>, nb::arg("buffers").none(), nb::arg("offset") = 0, nb::kw_only(),
           nb::arg("stream").none() = nb::none())
      .def("writev", &transfer_pieces<PENSTOCK_WRITE>, nb::arg("buffers").none(), nb::arg("offset") = 0, nb::kw_only(),
           nb::arg("stream").none() = nb::none())
      .def(
          "_explain",
          [](const File& file, bool write, nb::handle buffer, std::int64_t offset, std::int64_t size,
             std::uint32_t device) {
            return file.explain(write ? PENSTOCK_WRITE : PENSTOCK_READ, buffer, offset, size, device);
          },
          nb::arg("write"), nb::arg("buffer").none(), nb::arg("offset"), nb::arg("size"), nb::arg("device"))
      .def("info", &File::info)
      .def("stripe_info", &File::stripe_info)
      .def("sync", &File::sync)
      .def("advise_read_once", &File::advise_read_once)
      .def("publish", &File::publish);
}

}  // namespace penstock::python
