// SPDX-License-Identifier: Apache-2.0

#include "facts/stored_file.h"

#include <filesystem>
#include <utility>

namespace penstock::facts {
namespace {

DirectAnswer answer_for(const core::Root& root, const core::PeerMachine& machine, core::DirectFile file,
                        const DirectQuestion& question) {
  DirectAnswer answer;
  answer.report = core::judge_direct_file(root, machine.mounts, file, question.op);
  answer.file = std::move(file);
  const auto storage = answer.report.storage;
  if (storage) answer.stack = core::read_block_device(root, machine.mounts, *storage);
  answer.notes = storage_notes(root, answer.report.mount, answer.stack);
  std::vector<std::string> peers;
  if (!question.peer.empty()) peers.push_back(question.peer);
  if (question.peer.empty()) {
    for (const core::PciDevice* peer : machine.peers()) peers.push_back(peer->address);
  }
  if (peers.empty() && answer.stack) {
    core::PeerRoute any{"", answer.stack, core::kernel_findings(machine)};
    core::append(any.findings, core::storage_findings(machine, *answer.stack));
    answer.routes.push_back(std::move(any));
  }
  for (const std::string& peer : peers) {
    // Without a block device there is no route to judge: the file's own findings say why.
    if (storage) answer.routes.push_back(core::peer_route(root, machine, peer, *storage));
    if (storage) continue;
    core::PeerRoute route{peer, std::nullopt, core::kernel_findings(machine)};
    core::append(route.findings, core::peer_findings(machine, peer));
    answer.routes.push_back(std::move(route));
  }
  return answer;
}

}  // namespace

core::Result<DirectAnswer> stored_file(int fd, const DirectQuestion& question) {
  const auto root = core::Root::open("/");
  if (!root.ok()) return root.status();
  const std::uint64_t size = question.size == 0 ? core::kWholeFile : question.size;
  auto file = core::read_direct_file(fd, question.offset, size);
  if (!file.ok()) return file.status();
  DirectAnswer answer = answer_for(*root, core::read_peer_machine(*root), *file, question);
  if (question.size != 0) {
    // Assumes an aligned buffer, as GPUs' are; the caller has to say if theirs is not.
    answer.request = core::request_findings(*file, question.op, question.offset, question.size, 0);
  }
  return answer;
}

DirectAnswer captured_stored_file(const core::Root& root, const core::PeerMachine& machine, const std::string& path,
                                  const DirectQuestion& question) {
  const std::string plain = std::filesystem::path(path).lexically_normal();
  return answer_for(root, machine, core::captured_file(root, plain), question);
}

Holder holder_of(const core::Root& root, const std::string& folder) {
  const core::MountTable mounts = core::MountTable::read(root);
  const core::DirectFileReport report =
      core::judge_direct_file(root, mounts, core::captured_file(root, folder), core::Op::write);
  if (!report.mount || !report.storage) return {report.mount, std::nullopt};
  return {report.mount, core::read_block_device(root, mounts, *report.storage)};
}

core::DirectFile file_facts(int fd) {
  const auto facts = core::read_direct_file(fd);
  return facts.ok() ? *facts : core::DirectFile{};
}

std::optional<core::Finding> FileJudge::moved_by_cpu(int fd) const {
  const auto facts = core::read_direct_file(fd);
  if (!facts.ok()) return std::nullopt;
  for (const core::Finding& finding : core::judge_direct_file(root_, mounts_, *facts, core::Op::read).findings) {
    if (finding.has_cpu_move_bytes()) return finding;
  }
  return std::nullopt;
}

}  // namespace penstock::facts
