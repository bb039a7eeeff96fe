// SPDX-License-Identifier: Apache-2.0

#include "tools/common/direct_answer.h"

#include <fmt/format.h>

#include <set>

#include "tools/common/failure.h"
#include "tools/common/page.h"
#include "tools/common/pairs_page.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

std::string extents_text(const core::FileExtents& extents) {
  if (!extents.is_known) return "the file system does not tell";
  std::string text = fmt::format("{} extent{}", extents.count, extents.count == 1 ? "" : "s");
  const auto add = [&](std::uint64_t bytes, const char* what) {
    if (bytes > 0) text += fmt::format(", {} {}", format_size(bytes), what);
  };
  add(extents.hole_bytes, "of holes");
  add(extents.unwritten_bytes, "unwritten");
  add(extents.shared_bytes, "shared");
  add(extents.inline_bytes, "inline");
  add(extents.encoded_bytes, "compressed");
  add(extents.encrypted_bytes, "encrypted");
  add(extents.delayed_bytes, "not placed yet");
  if (!extents.is_complete) text += ", and more";
  return text;
}

Json extents_json(const core::FileExtents& extents) {
  if (!extents.is_known) return nullptr;
  return {{"complete", extents.is_complete},        {"count", extents.count},
          {"hole_bytes", extents.hole_bytes},       {"unwritten_bytes", extents.unwritten_bytes},
          {"shared_bytes", extents.shared_bytes},   {"inline_bytes", extents.inline_bytes},
          {"encoded_bytes", extents.encoded_bytes}, {"encrypted_bytes", extents.encrypted_bytes},
          {"delayed_bytes", extents.delayed_bytes}};
}

}  // namespace

DirectAnswer ask_direct(int fd, const DirectQuestion& question) {
  auto answer = facts::stored_file(fd, question);
  if (!answer.ok()) fail_errno("the file", "look at how it is stored", answer.status().code);
  return *std::move(answer);
}

DirectAnswer ask_captured(const core::Root& root, const core::PeerMachine& machine, const std::string& path,
                          const DirectQuestion& question) {
  if (!path.starts_with('/')) throw Failure("name the file by its absolute path on the captured machine", kUsage);
  return facts::captured_stored_file(root, machine, path, question);
}

std::string direct_text(const DirectAnswer& answer, const DirectQuestion& question) {
  Page page;
  page.section(
      fmt::format("p2pdma, a {}: what stands in the way (?: only its self-test can tell)", core::op_name(question.op)));
  if (!answer.file.is_block_device) page.row("stored in", extents_text(answer.file.extents));
  std::set<std::string> told;
  print_findings(page, answer.report.findings, "  ", told);
  print_findings(page, answer.request, "  ", told);
  if (answer.report.findings.empty() && answer.request.empty()) page.row("of the file", "nothing");
  for (const core::PeerRoute& route : answer.routes) {
    page.row(route.peer.empty() ? "any device" : route.peer, route.findings.empty() ? "nothing"
                                                             : route.is_possible()  ? "perhaps"
                                                                                    : "closed");
    print_findings(page, route.findings, "    ", told);
  }
  if (answer.routes.empty()) page.row("devices", "none that offers its memory to a drive");
  if (!answer.routes.empty() && answer.routes[0].peer.empty()) page.row("", "there is none here");
  if (!answer.notes.empty())
    page.section(
        "storage: what no look at the file shows, by sections of NVIDIA's O_DIRECT guide, and how to find out");
  print_notes(answer.notes, page);
  return page.text();
}

Json direct_json(const DirectAnswer& answer) {
  Json routes = Json::array();
  for (const core::PeerRoute& route : answer.routes) {
    routes.push_back(
        {{"peer", route.peer}, {"possible", route.is_possible()}, {"obstacles", findings_json(route.findings)}});
  }
  return {{"extents", extents_json(answer.file.extents)},
          {"obstacles", findings_json(answer.report.findings)},
          {"request_obstacles", findings_json(answer.request)},
          {"routes", routes},
          {"storage_notes", notes_json(answer.notes)}};
}

Json stack_json(const core::BlockDevice& device) {
  Json below = Json::array();
  for (const core::BlockDevice& slave : device.slaves) below.push_back(stack_json(slave));
  return {{"name", device.name},
          {"disk", device.disk},
          {"kind", core::block_kind_name(device.kind)},
          {"transport", core::nvme_transport_name(device.transport)},
          {"multipath", device.is_multipath},
          {"scsi_link", device.scsi_link},
          {"iscsi_driver", device.iscsi_driver},
          {"dm_type", device.dm_type},
          {"dm_target", device.dm_target},
          {"md_level", device.md_level},
          {"pci_address", device.pci_address},
          {"model", device.model},
          {"numa_node", device.numa_node},
          {"logical_block_size", device.logical_block_size},
          {"rotational", device.is_rotational},
          {"below", below}};
}

void print_notes(const facts::StorageNotes& notes, Page& page) {
  for (const facts::StorageNote& note : notes) {
    const std::string by = note.source.empty() ? "" : " [" + note.source + "]";
    page.wrap(fmt::format("  {:<11} {:<5} ", note.topic, note.section), note.text + by);
    if (!note.ask.empty()) page.wrap("                 -> ", note.ask);
  }
}

Json notes_json(const facts::StorageNotes& notes) {
  Json list = Json::array();
  for (const facts::StorageNote& note : notes) {
    list.push_back({{"topic", note.topic},
                    {"guide_section", note.section},
                    {"text", note.text},
                    {"ask", note.ask},
                    {"source", note.source}});
  }
  return list;
}

}  // namespace penstock::tools
