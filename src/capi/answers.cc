// SPDX-License-Identifier: Apache-2.0

// The C API's answers about paths, plans and what was moved.
#include <algorithm>
#include <string>

#include "capi/call.h"
#include "frontend/dry_run.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::count_call;
using core::failed;
using core::Status;
using core::status_call;

constexpr unsigned kPlanLines = 16;

penstock_verdict to_public(const core::Verdict& verdict) {
  return {static_cast<std::int32_t>(verdict.path),
          verdict.usable ? 1 : 0,
          static_cast<std::int32_t>(verdict.reason),
          verdict.detail,
          {}};
}

core::PointerFacts memory_of(penstock_session* session, const void* base, unsigned ordinal, Status& status) {
  if (base != nullptr) return session->session->devices().describe(base);
  const core::Result<core::Device*> device = session->session->devices().device(ordinal);
  status = device.status();
  core::PointerFacts facts;
  facts.kind = core::MemoryKind::device;
  if (!device.ok()) return facts;
  facts.device = *device;
  // What a piece of its memory would be; the address means nothing.
  if ((*device)->allocates_mapped()) facts.base = facts.mapped = 4096;
  return facts;
}

// What explain, plan and choose are asked about. Memory that is not named counts as aligned to pages, as every
// allocation of a device is.
struct Question {
  core::PointerFacts memory;
  core::RawRequest request;
};
core::Result<Question> question_of(penstock_session* session, penstock_file file, const void* base, unsigned ordinal,
                                   int is_write, std::size_t size, std::int64_t file_offset) {
  if (session == nullptr) return core::failure(Code::invalid_argument, "use the session");
  const core::Result<core::Op> op = core::op_of(is_write);
  if (!op.ok()) return op.status();
  Status status;
  const core::PointerFacts memory = memory_of(session, base, ordinal, status);
  if (!status.ok()) return status;
  const void* const address = base != nullptr ? base : reinterpret_cast<const void*>(std::uintptr_t{4096});
  return Question{memory, {*op, file, address, size, file_offset, 0}};
}

}  // namespace

extern "C" {

unsigned penstock_explain(penstock_session* session, penstock_file file, const void* base, unsigned ordinal,
                          int is_write, penstock_verdict* verdicts, unsigned capacity, penstock_status* status) {
  penstock_status ignored;
  if (status == nullptr) status = &ignored;
  *status = failed(Code::out_of_memory, "explain the file");
  return count_call([&]() -> unsigned {
    const core::Result<Question> asked = question_of(session, file, base, ordinal, is_write, 0, 0);
    *status = core::to_public(asked.status());
    if (!asked.ok()) return 0;
    core::Verdict found[core::kPathCount];
    const core::Result<unsigned> count =
        core::explain(*session->session, file, asked->memory, asked->request.op, found);
    *status = core::to_public(count.status());
    if (!count.ok()) return 0;
    for (unsigned i = 0; i < *count && i < capacity && verdicts != nullptr; ++i) verdicts[i] = to_public(found[i]);
    return *count;
  });
}

size_t penstock_plan(penstock_session* session, penstock_file file, const void* base, unsigned ordinal, int is_write,
                     size_t size, int64_t file_offset, char* text, size_t capacity, penstock_status* status) {
  penstock_status ignored;
  if (status == nullptr) status = &ignored;
  *status = failed(Code::out_of_memory, "plan the request");
  if (text != nullptr && capacity > 0) text[0] = '\0';
  return count_call([&]() -> size_t {
    const core::Result<Question> asked = question_of(session, file, base, ordinal, is_write, size, file_offset);
    *status = core::to_public(asked.status());
    if (!asked.ok()) return 0;
    const core::Result<std::string> plan =
        core::plan_text(*session->session, asked->request, asked->memory, kPlanLines);
    *status = core::to_public(plan.status());
    return plan.ok() ? core::copy_text(*plan, text, capacity) : 0;
  });
}

penstock_status penstock_choose(penstock_session* session, penstock_file file, const void* base, unsigned ordinal,
                                int is_write, size_t size, int64_t file_offset, penstock_choice* choice) {
  return status_call("plan the request", [&]() -> penstock_status {
    if (choice == nullptr) return failed(Code::invalid_argument, "plan the request");
    const core::Result<Question> asked = question_of(session, file, base, ordinal, is_write, size, file_offset);
    if (!asked.ok()) return core::to_public(asked.status());
    const core::Result<core::Choice> made = core::choice(*session->session, asked->request, asked->memory);
    if (!made.ok()) return core::to_public(made.status());
    *choice = {.path = static_cast<std::int32_t>(made->path),
               .chosen_by = static_cast<std::int32_t>(made->by),
               .threads = made->threads,
               .depth = made->depth,
               .chunk = made->chunk,
               .policy = made->policy};
    return {};
  });
}

unsigned penstock_counters(penstock_session* session, penstock_counter* counters, unsigned capacity) {
  unsigned count = 0;
  if (session == nullptr) return 0;
  for (int path = 0; path < PENSTOCK_PATH_COUNT; ++path) {
    for (int reason = 0; reason < PENSTOCK_REASON_COUNT; ++reason) {
      const auto total = [&](core::Op op) {
        return session->session->counters().total(static_cast<core::PathId>(path), static_cast<core::Reason>(reason),
                                                  op);
      };
      const core::Count read = total(core::Op::read);
      const core::Count written = total(core::Op::write);
      if (read.operations == 0 && written.operations == 0) continue;
      if (counters != nullptr && count < capacity) {
        counters[count] = {path, reason, read.bytes, read.operations, written.bytes, written.operations, {}};
      }
      ++count;
    }
  }
  return counters == nullptr ? count : std::min(count, capacity);
}

}  // extern "C"
