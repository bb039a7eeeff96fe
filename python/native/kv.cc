// SPDX-License-Identifier: Apache-2.0

#include "python/native/kv.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "python/native/delivery.h"
#include "python/native/failure.h"
#include "python/native/file.h"
#include "python/native/kv_requests.h"
#include "python/native/library.h"
#include "python/native/no_gil.h"
#include "python/native/report.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// Keys of state() and labels of metrics(): the names of penstock.kv.Outcome.
constexpr const char* kOutcomeNames[kv::kOutcomes] = {"done", "present", "miss",   "damaged", "mismatch",
                                                      "full", "large",   "failed", "late"};

void check_names(const nb::bytes& keys) {
  if (keys.size() % sizeof(kv::Name) != 0) raise_value_error("keys: expected 16 bytes for each");
}

std::vector<kv::Name> names_in(const nb::bytes& keys) {
  check_names(keys);
  std::vector<kv::Name> names(keys.size() / sizeof(kv::Name));
  std::memcpy(names.data(), keys.c_str(), keys.size());
  return names;
}

// New bytes, which are the caller's alone until it returns them.
nb::bytes new_bytes(std::size_t count) {
  PyObject* const made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count));
  if (made == nullptr) throw nb::python_error();
  return nb::steal<nb::bytes>(made);
}
char* data_of(const nb::bytes& bytes) { return PyBytes_AsString(bytes.ptr()); }

kv::Name name_in(const nb::bytes& key) {
  const std::vector<kv::Name> names = names_in(key);
  if (names.size() != 1) raise_value_error("expected the 16 bytes of one name");
  return names[0];
}

template <typename Ask>
nb::bytes answers(const nb::bytes& keys, const Ask& ask) {
  check_names(keys);
  const nb::bytes flags = new_bytes(keys.size() / sizeof(kv::Name));
  for (std::size_t i = 0; i < flags.size(); ++i) {
    kv::Name key;
    std::memcpy(key.data(), keys.c_str() + i * sizeof key, sizeof key);
    data_of(flags)[i] = ask(key) ? '\1' : '\0';
  }
  return flags;
}

template <std::size_t count>
nb::dict counts_by_outcome(const std::uint64_t (&counts)[count]) {
  nb::dict by_name;
  for (std::size_t i = 0; i < count; ++i) by_name[kOutcomeNames[i]] = counts[i];
  return by_name;
}

// Replaces the drive's puts and gets by the users', and adds the facts of memory.
void add_tier(nb::dict& fields, const kv::TierState& tier, const kv::State& memory) {
  fields["put_bytes"] = tier.put_bytes;
  fields["got_bytes"] = tier.got_bytes;
  fields["puts"] = counts_by_outcome(tier.puts);
  fields["gets"] = counts_by_outcome(tier.gets);
  nb::dict host;
  host["chunks"] = memory.chunks;
  host["used_bytes"] = memory.used_bytes;
  host["capacity_bytes"] = memory.bytes;
  host["waiting"] = tier.waiting;
  host["written"] = tier.written;
  host["written_bytes"] = tier.written_bytes;
  host["written_s"] = tier.written_seconds;
  host["not_written"] = counts_by_outcome(tier.not_written);
  host["got_from_host"] = tier.got_from_memory;
  host["got_from_drive"] = tier.got_from_drive;
  fields["host"] = host;
}

}  // namespace

KvStore::KvStore(std::shared_ptr<SessionHandle> session, const std::string& folder, const nb::bytes& name,
                 std::uint64_t bytes, std::uint64_t extent_bytes, bool by_cost, bool direct, std::uint64_t host_bytes)
    : session_(std::move(session)) {
  const kv::Name own = name_in(name);
  if (session_->is_closed()) raise(exception_of(own_status(PENSTOCK_CLOSED, "open a store")));
  core::Status status;
  {
    const NoGil no_gil;
    const bool is_writer = bytes > 0;
    const auto role = is_writer ? kv::SessionVolume::Role::writer : kv::SessionVolume::Role::reader;
    auto volume = kv::SessionVolume::open(library_of(session_->engine()), session_->raw(), folder, role, bytes, direct);
    status = volume.status();
    if (status.ok()) volume_ = std::move(*volume);
    if (status.ok() && is_writer) {
      status =
          open_writer({own, bytes, extent_bytes, by_cost ? kv::Eviction::cost : kv::Eviction::recent_use}, host_bytes);
    } else if (status.ok()) {
      follower_ = std::make_unique<kv::Follower>(*volume_, own);
      reader_ = follower_.get();
      status = follower_->refresh();
    }
  }
  check(raw(status));
}

core::Status KvStore::open_writer(const kv::StoreSettings& settings, std::uint64_t host_bytes) {
  auto store = kv::Store::open(*volume_, settings);
  if (!store.ok()) return store.status();
  store_ = std::move(*store);
  reader_ = store_.get();
  writer_ = store_.get();
  if (host_bytes == 0) return core::success();
  auto volume = kv::SessionVolume::open(library_of(session_->engine()), session_->raw(), "",
                                        kv::SessionVolume::Role::memory, host_bytes);
  if (!volume.ok()) return volume.status();
  host_volume_ = std::move(*volume);
  auto host = kv::Store::open(*host_volume_, {settings.name, host_bytes, settings.extent_bytes, settings.eviction});
  if (!host.ok()) return host.status();
  host_store_ = std::move(*host);
  try {
    tier_ = std::make_unique<kv::TieredStore>(*host_store_, *store_);
  } catch (const std::system_error& error) {
    return core::os_failure(error.code().value(), "start the thread that writes chunks to the drive");
  }
  reader_ = tier_.get();
  writer_ = tier_.get();
  return core::success();
}

KvStore::~KvStore() {
  if (!is_ending() && core::fork_count() == forks_) {
    const NoGil no_gil;
    timed_->wait();
    return;
  }
  static_cast<void>(timed_.release());
  static_cast<void>(tier_.release());
  static_cast<void>(host_store_.release());
  static_cast<void>(host_volume_.release());
  static_cast<void>(store_.release());
  static_cast<void>(follower_.release());
  static_cast<void>(volume_.release());
  new std::shared_ptr<SessionHandle>(std::move(session_));
}

void KvStore::check_is_own() const {
  if (core::fork_count() != forks_) raise(exception_of(own_status(PENSTOCK_CLOSED, "use a store of the parent's")));
  if (is_closed_) raise(exception_of(own_status(PENSTOCK_CLOSED, "use the store")));
}

void KvStore::check_is_writer() const {
  check_is_own();
  if (writer_ == nullptr) raise_value_error("the store is another process's: here it can only be read");
}

template <typename Work>
penstock_status KvStore::carry_out(const Work& work) const {
  const NoGil no_gil;
  const std::shared_lock lock(in_use_);
  if (is_closed_) return own_status(PENSTOCK_CLOSED, "use the store");
  return raw(work());
}

// The get runs on another thread, which may outlive this call. close() waits for it.
void KvStore::get_in_time(KvRequests& asked, double seconds) {
  const std::span<kv::Request> requests = asked.all();
  const auto arrived = timed_->get(*reader_, requests, seconds);
  const auto is_late = [](const kv::Request& one) { return one.outcome == kv::Outcome::late; };
  late_ += static_cast<std::uint64_t>(std::count_if(requests.begin(), requests.end(), is_late));
  auto memory = asked.memories().begin();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    kv::Request& one = requests[i];
    const auto* from = arrived == nullptr ? nullptr : static_cast<const std::byte*>(arrived->pieces[i].iov_base);
    for (const iovec& piece : one.pieces) {
      const Memory& into = **memory++;
      if (one.outcome != kv::Outcome::done) continue;
      const penstock_status status = deliver(*session_, into, piece.iov_base, from, piece.iov_len);
      if (status.code != 0) one.outcome = kv::Outcome::failed, one.status = kv::status_of(status);
      from += piece.iov_len;
    }
  }
}

nb::tuple KvStore::put(const nb::bytes& keys, const nb::list& memories, const std::vector<float>& costs,
                       nb::handle stream) {
  check_is_writer();
  KvRequests requests(names_in(keys), memories, costs, access_for(PENSTOCK_WRITE), stream);
  requests.wait_for_orders();
  check(carry_out([&] {
    writer_->put(kv::each_of(requests.all()));
    return core::success();
  }));
  return requests.outcomes();
}

nb::tuple KvStore::get(const nb::bytes& keys, const nb::list& memories, nb::handle stream, double timeout_s) {
  check_is_own();
  KvRequests requests(names_in(keys), memories, {}, access_for(PENSTOCK_READ), stream);
  requests.wait_for_orders();
  check(carry_out([&] {
    if (timeout_s >= 0) get_in_time(requests, timeout_s);
    else reader_->get(kv::each_of(requests.all()));
    return core::success();
  }));
  return requests.outcomes();
}

nb::bytes KvStore::lookup(const nb::bytes& keys) const {
  check_is_own();
  return answers(keys, [&](const kv::Name& key) { return reader_->contains(key); });
}

nb::bytes KvStore::erase(const nb::bytes& keys) {
  check_is_writer();
  const std::vector<kv::Name> names = names_in(keys);
  std::string flags;
  check(carry_out([&] {  // Without the GIL: it may wait for the end of a write.
    for (const kv::Name& key : names) flags += writer_->erase(key) ? '\1' : '\0';
    return core::success();
  }));
  return nb::bytes(flags.data(), flags.size());
}

nb::bytes KvStore::touch(const nb::bytes& keys) {
  check_is_writer();
  return answers(keys, [&](const kv::Name& key) { return writer_->touch(key); });
}

nb::bytes KvStore::pin(const nb::bytes& keys) {
  check_is_writer();
  return answers(keys, [&](const kv::Name& key) { return writer_->pin(key); });
}

nb::bytes KvStore::unpin(const nb::bytes& keys) {
  check_is_writer();
  return answers(keys, [&](const kv::Name& key) { return writer_->unpin(key); });
}

std::uint64_t KvStore::size_of(const nb::bytes& key) const {
  check_is_own();
  return reader_->size_of(name_in(key));
}

nb::object KvStore::seconds_to_get(const nb::bytes& keys) const {
  check_is_own();
  const std::optional<double> seconds = reader_->seconds_to_get(names_in(keys));
  return seconds ? nb::cast(*seconds) : nb::none();
}

void KvStore::commit() {
  check_is_writer();
  check(carry_out([&] { return writer_->commit(); }));
}

void KvStore::refresh() {
  check_is_own();
  check(carry_out([&] { return follower_ != nullptr ? follower_->refresh() : core::success(); }));
}

void KvStore::close() {
  if (core::fork_count() != forks_ || is_closed_.exchange(true)) return;
  core::Status status;
  {
    const NoGil no_gil;
    const std::scoped_lock lock(in_use_);
    timed_->wait();
    if (tier_ != nullptr) tier_->flush();
    tier_.reset();
    if (store_ != nullptr) status = store_->close();
  }
  host_store_.reset();
  host_volume_.reset();
  store_.reset();
  follower_.reset();
  volume_.reset();
  check(raw(status));
}

void KvStore::leave_lease() {
  if (volume_ != nullptr) volume_->leave_lease();
}

nb::dict KvStore::state() const {
  check_is_own();
  const kv::State state = store_ != nullptr ? store_->state() : follower_->state();
  nb::dict fields;
  fields["chunks"] = state.chunks;
  fields["used_bytes"] = state.used_bytes;
  fields["capacity_bytes"] = state.bytes;
  fields["uncommitted"] = state.uncommitted;
  fields["dropped_at_start"] = state.dropped_at_start;
  fields["evicted"] = state.counts.evicted;
  fields["commits"] = state.counts.commits;
  fields["put_bytes"] = state.counts.put_bytes;
  fields["got_bytes"] = state.counts.get_bytes;
  fields["puts"] = counts_by_outcome(state.counts.puts);
  fields["gets"] = counts_by_outcome(state.counts.gets);
  const kv::MovedBytes moved = volume_->moved();
  fields["bytes_by_path"] = by_path_name(moved);
  fields["bytes_by_reason"] = by_reason_name(moved);
  if (tier_ != nullptr) add_tier(fields, tier_->state(), host_store_->state());
  fields["gets"]["late"] = late_.load();
  return fields;
}

nb::object KvStore::failure() const {
  check_is_own();
  if (tier_ == nullptr) return nb::none();
  const core::Status status = tier_->state().failure;
  return status.ok() ? nb::none() : exception_of(raw(status));
}

void bind_kv(nb::module_& module) {
  nb::class_<KvStore>(module, "KvStore")
      .def(nb::init<std::shared_ptr<SessionHandle>, std::string, nb::bytes, std::uint64_t, std::uint64_t, bool, bool,
                    std::uint64_t>(),
           nb::arg("session"), nb::arg("folder"), nb::arg("name"), nb::arg("bytes"), nb::arg("extent_bytes"),
           nb::arg("by_cost"), nb::arg("direct"), nb::arg("host_bytes"))
      .def("put", &KvStore::put, nb::arg("keys"), nb::arg("memories"), nb::arg("costs"), nb::arg("stream").none())
      .def("get", &KvStore::get, nb::arg("keys"), nb::arg("memories"), nb::arg("stream").none(), nb::arg("timeout"))
      .def("lookup", &KvStore::lookup, nb::arg("keys"))
      .def("erase", &KvStore::erase, nb::arg("keys"))
      .def("touch", &KvStore::touch, nb::arg("keys"))
      .def("pin", &KvStore::pin, nb::arg("keys"))
      .def("unpin", &KvStore::unpin, nb::arg("keys"))
      .def("size_of", &KvStore::size_of, nb::arg("key"))
      .def("seconds_to_get", &KvStore::seconds_to_get, nb::arg("keys"))
      .def("commit", &KvStore::commit)
      .def("refresh", &KvStore::refresh)
      .def("close", &KvStore::close)
      .def("leave_lease", &KvStore::leave_lease)
      .def("failure", &KvStore::failure)
      .def("state", &KvStore::state);
}

}  // namespace penstock::python
