// SPDX-License-Identifier: Apache-2.0

// Dry runs of the C API, and its outlook of a path: which path a request would take, and how it would be moved.
#include <string>

#include "base/page_size.h"
#include "capi/conversions.h"
#include "frontend/dry_run.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::success;

constexpr unsigned kPlanLines = 16;

penstock_verdict to_public(const core::Verdict& verdict) {
  return {.struct_size = 0,
          .path = static_cast<std::int32_t>(verdict.path),
          .usable = verdict.usable ? 1 : 0,
          .reason = static_cast<std::int32_t>(verdict.reason),
          .detail = verdict.detail,
          .reserved = 0};
}

penstock_choice to_public(const core::Choice& choice) {
  return {.struct_size = 0,
          .path = static_cast<std::int32_t>(choice.path),
          .chosen_by = static_cast<std::int32_t>(choice.by),
          .threads = choice.threads,
          .depth = choice.depth,
          .reserved = 0,
          .chunk = choice.chunk,
          .policy = choice.policy};
}

// A dry run's request and memory.
struct Question {
  core::RawRequest request;
  core::PointerFacts memory;
};

// A dry run without an address assumes page alignment, which every device allocation has.
Status find_memory(core::Session& session, std::uint32_t ordinal, Question& question) {
  if (question.request.base != nullptr) {
    question.memory = session.devices().describe(question.request.base);
    return success();
  }
  const core::Result<core::Device*> device = session.devices().device(ordinal);
  if (!device.ok()) return device.status();
  question.memory.kind = core::MemoryKind::device;
  question.memory.device = *device;
  // The facts of a made-up piece of the device's memory; nobody uses the address.
  const std::uintptr_t address = core::page_size();
  if ((*device)->memory().allocates_mapped()) question.memory.base = question.memory.mapped = address;
  question.request.base = reinterpret_cast<const void*>(address);
  return success();
}

// Calls ask(use, question) if the request is valid.
template <typename Ask>
penstock_status dry_run(const char* step, const penstock_request* request, Ask ask) {
  penstock_request said{};
  if (const Status status = core::read_struct(request, said); !status.ok()) return core::to_public(status);
  return session_call(step, said.file, [&](const GuardedSession::Use& use) -> Status {
    const core::Result<core::RawRequest> raw = core::raw_request(said);
    if (!raw.ok()) return raw.status();
    Question question{*raw, {}};
    const Status status = find_memory(*use, said.device, question);
    return status.ok() ? ask(use, question) : status;
  });
}

}  // namespace

extern "C" {

penstock_status penstock_explain(const penstock_request* request, penstock_verdict* verdicts, uint32_t capacity,
                                 uint32_t* count) {
  constexpr const char* kStep = "explain the request";
  if (count != nullptr) *count = 0;
  return dry_run(kStep, request, [&](const GuardedSession::Use& use, const Question& question) -> Status {
    if (count == nullptr) return failure(Code::invalid_argument, kStep);
    if (const Status status = core::check_array(verdicts, capacity); !status.ok()) return status;
    core::Verdict found[core::kPathCount];
    const core::Result<unsigned> made =
        core::explain(*use, question.request.file, question.memory, question.request.op, found);
    if (!made.ok()) return made.status();
    *count = *made;
    for (unsigned i = 0; i < *made && i < capacity; ++i) core::write_element(verdicts, i, to_public(found[i]));
    return success();
  });
}

penstock_status penstock_plan(const penstock_request* request, char* text, size_t capacity, size_t* length) {
  if (length != nullptr) *length = 0;
  if (text != nullptr && capacity > 0) text[0] = '\0';
  return dry_run("plan the request", request, [&](const GuardedSession::Use& use, const Question& question) -> Status {
    const core::Result<std::string> plan = core::plan_text(*use, question.request, question.memory, kPlanLines);
    if (!plan.ok()) return plan.status();
    (void)core::copy_text(*plan, text, capacity);
    if (length != nullptr) *length = plan->size();
    return success();
  });
}

penstock_status penstock_choose(const penstock_request* request, penstock_choice* choice) {
  return dry_run("plan the request", request, [&](const GuardedSession::Use& use, const Question& question) -> Status {
    if (const Status status = core::check_struct(choice); !status.ok()) return status;
    const core::Result<core::Choice> made = core::choice(*use, question.request, question.memory);
    if (made.ok()) core::write_struct(choice, to_public(*made));
    return made.status();
  });
}

penstock_status penstock_path_outlook(penstock_session* session, int32_t path, penstock_verdict* verdict) {
  constexpr const char* kStep = "look at the path";
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (path < 0 || path >= static_cast<int>(core::kPathCount)) return failure(Code::invalid_argument, kStep);
    if (const Status status = core::check_struct(verdict); !status.ok()) return status;
    const auto id = static_cast<core::PathId>(path);
    core::Verdict found = core::outlook(*use, id);
    // Where host memory stands in for a GPU, paths that need a real device are not usable.
    const core::PathTraits& traits = core::traits_of(id);
    const bool needs_gpu = id != core::PathId::p2pdma && (traits.direct || (traits.compat && !traits.posix));
    const bool has_gpu = session->guarded->device_reason().empty();
    if (found.usable && needs_gpu && !has_gpu) found = core::refused(id, core::Reason::stand_in);
    core::write_struct(verdict, to_public(found));
    return success();
  });
}

}  // extern "C"
