// SPDX-License-Identifier: Apache-2.0

// The bytes that a session and a single request moved, by path.
#include "capi/conversions.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::success;

penstock_counter to_public(core::PathId path, core::Reason reason, const core::Count& read,
                           const core::Count& written) {
  return {.struct_size = 0,
          .path = static_cast<std::int32_t>(path),
          .reason = static_cast<std::int32_t>(reason),
          .reserved = 0,
          .read_bytes = read.bytes,
          .read_operations = read.operations,
          .write_bytes = written.bytes,
          .write_operations = written.operations};
}

core::SaveNumbers to_core(const penstock_save_costs& costs) {
  return {costs.saves,     costs.bytes,        costs.stood_ns,   costs.waited_ns,
          costs.hidden_ns, costs.given_way_ns, costs.written_ns, costs.flushed_ns};
}

}  // namespace

extern "C" {

uint64_t penstock_report_bytes(const penstock_report* report, int32_t path) {
  penstock_report known{};
  if (!core::read_struct(report, known).ok()) return 0;
  const uint64_t chosen = known.path == path ? known.bytes - known.bounced_bytes : 0;
  return chosen + (path == PENSTOCK_PATH_BOUNCE ? known.bounced_bytes : 0);
}

penstock_status penstock_counters(penstock_session* session, penstock_counter* counters, uint32_t capacity,
                                  uint32_t* count) {
  constexpr const char* kStep = "read the counters";
  if (count != nullptr) *count = 0;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (count == nullptr) return failure(Code::invalid_argument, kStep);
    if (const Status status = core::check_array(counters, capacity); !status.ok()) return status;
    for (unsigned cell = 0; cell < core::kPathCount * core::kReasonCount; ++cell) {
      const auto path = static_cast<core::PathId>(cell / core::kReasonCount);
      const auto reason = static_cast<core::Reason>(cell % core::kReasonCount);
      const core::Count read = use->counters().total(path, reason, core::Op::read);
      const core::Count written = use->counters().total(path, reason, core::Op::write);
      if (read.operations == 0 && written.operations == 0) continue;
      if (*count < capacity) core::write_element(counters, *count, to_public(path, reason, read, written));
      ++*count;
    }
    return success();
  });
}

penstock_status penstock_count_save(penstock_session* session, const penstock_save_costs* costs) {
  return session_call("count a save", session, [&](const GuardedSession::Use& use) -> Status {
    penstock_save_costs known{};
    if (const Status status = core::read_struct(costs, known); !status.ok()) return status;
    use->counters().add_save(to_core(known));
    return success();
  });
}

}  // extern "C"
