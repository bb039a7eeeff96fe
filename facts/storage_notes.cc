// SPDX-License-Identifier: Apache-2.0

#include "facts/storage_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "facts/network_notes.h"
#include "topology/block_layer.h"
#include "topology/network_mount.h"
#include "topology/text.h"

namespace penstock::facts {
namespace {

using core::BlockDevice;
using core::Mount;
using core::Root;

struct Topic {
  const char* name;
  const char* section;
};
constexpr Topic kTopics[] = {{"server", "2.2"},       {"cache", "2.3.1"},      {"inline", "2.3.2"},
                             {"allocation", "2.3.3"}, {"transforms", "2.3.4"}, {"replication", "2.3.4"}};

const char* topic_of(core::LayerRole role) {
  switch (role) {
    case core::LayerRole::cache: return "cache";
    case core::LayerRole::allocation: return "allocation";
    case core::LayerRole::replication: return "replication";
    case core::LayerRole::remote: return "server";
    case core::LayerRole::deduplication:
    case core::LayerRole::encryption:
    case core::LayerRole::parity: break;
  }
  return "transforms";
}

class Notes {
 public:
  explicit Notes(const Root& root) : root_(root) {}

  void add(std::string_view topic, std::string text, std::string ask = "", std::string source = "") {
    const auto* const known =
        std::find_if(std::begin(kTopics), std::end(kTopics), [&](const Topic& one) { return one.name == topic; });
    notes_.push_back({known->name, known->section, std::move(text), std::move(ask), std::move(source)});
  }

  void add_network(const Mount& mount) {
    add_transport(mount);
    add_cache(mount);
    add_inline(mount);
    if (const std::string done = core::client_transform(mount); !done.empty()) {
      add("transforms", "this client's CPU " + done + ": every byte passes host memory");
    }
    const std::string_view type = note_type(mount.type);
    const bool is_answered = type == "nfs" && core::network_transport(root_, mount) == "rdma";
    for (const NetworkNote& note : kNetworkNotes) {
      if (is_answered && note.topic == std::string_view("server")) continue;
      if (note.type == type) add(note.topic, note.text, note.ask, note.source);
    }
  }

  void add_local(const Mount& mount) {
    if (mount.type != "zfs") return;
    add("cache", "ZFS keeps a cache of its own in memory (ARC), beside the page cache",
        "zfs get primarycache,direct " + mount.source, "zfsprops(7)");
    add("transforms", "ZFS may compress, deduplicate and encrypt, and computes checksums of every block",
        "zfs get compression,dedup,encryption,checksum " + mount.source, "zfsprops(7)");
  }

  void add_stack(const BlockDevice& device) {
    add_nvme(device);
    if (device.is_buffered) add_loop(device);
    if (const core::BlockLayer* const layer = core::block_layer(device)) add_layer(device, *layer);
    else if (device.kind == core::BlockKind::dm && device.dm_type.empty()) {
      add("transforms", device.name + " is made by device mapper, and /sys does not show its target",
          "as root: dmsetup table " + (device.dm_name.empty() ? device.name : device.dm_name));
    }
    for (const BlockDevice& below : device.slaves) add_stack(below);
  }

  // Sorted by topic, in the order of the guide; within a topic, facts of this machine come before notes on its kind.
  StorageNotes sorted() && {
    const auto rank = [](const StorageNote& note) {
      return std::find_if(std::begin(kTopics), std::end(kTopics),
                          [&](const Topic& one) { return std::string_view(one.name) == note.topic; });
    };
    std::stable_sort(notes_.begin(), notes_.end(),
                     [&](const StorageNote& one, const StorageNote& other) { return rank(one) < rank(other); });
    const auto is_same = [](const StorageNote& one, const StorageNote& other) { return one.text == other.text; };
    notes_.erase(std::unique(notes_.begin(), notes_.end(), is_same), notes_.end());
    return std::move(notes_);
  }

 private:
  void add_transport(const Mount& mount) {
    const std::string transport = core::network_transport(root_, mount);
    const core::VastClient vast = core::vast_client(root_, mount);
    std::string text = transport.empty() ? "the transport in use is not shown here" : transport + " is in use";
    if (transport == "rdma") text += ", so both ends have it";
    if (vast.is_loaded) text += "; this end is " + core::text_of(vast);
    add("server", text);
    if (!mount.type.starts_with("nfs")) return;
    if (!vast.option.empty()) return;
    add("server",
        vast.is_loaded ? "no option of VAST's multipath is in use, so whether VAST serves it does not show"
                       : "NFS names no maker of its server: one of VAST looks like any other without VAST's own client",
        vast.is_loaded ? "vastnfs-ctl status" : "the mount's address, in the maker's management",
        "VAST NFS, Mount parameters");
  }

  void add_cache(const Mount& mount) {
    const core::LocalCache cache = core::local_cache(root_, mount);
    if (!cache.is_wanted) return;
    add("cache",
        std::string("mounted with fsc: copies of what is read through the page cache are kept on a local drive "
                    "(fscache); O_DIRECT goes past them, and a direct write drops those of its file") +
            (cache.is_there ? "" : "; no cachefiles is seen here, so nothing keeps any"),
        "cat /proc/fs/fscache/caches", "Linux, Documentation/filesystems/caching/netfs-api.rst");
  }

  // Adds the size limits for data within messages that this client shows.
  void add_inline(const Mount& mount) {
    const std::string transport = core::network_transport(root_, mount);
    if (mount.type.starts_with("nfs") && transport == "rdma") {
      add_threshold("/proc/sys/sunrpc/rdma_max_inline_read",
                    "replies of up to {}, header included, carry their data "
                    "within the message, through buffers of host memory; larger reads are placed by RDMA",
                    "sysctl sunrpc.rdma_max_inline_read", "RFC 8166; Linux, net/sunrpc/xprtrdma");
    } else if (mount.type.starts_with("nfs") || mount.type == "ceph" || transport == "tcp") {
      add("inline", "all data is within messages, and passes socket buffers in host memory", "", kGuide);
    } else if (mount.type == "cifs" || mount.type == "smb3") {
      add_threshold("/proc/fs/cifs/rdma_readwrite_threshold",
                    "requests below {} carry their data within the message; larger ones are placed by RDMA",
                    "cat /proc/fs/cifs/rdma_readwrite_threshold", "Linux, fs/smb/client/smbdirect.c");
    }
    if (mount.type == "lustre") add_lustre();
  }

  void add_threshold(const std::string& file, const char* text, const char* ask, const char* source) {
    const auto bytes = root_.read_number(file);
    const std::string size = bytes ? fmt::format("{} bytes", *bytes) : "a threshold that cannot be read here";
    add("inline", fmt::format(fmt::runtime(text), size), ask, source);
  }

  void add_lustre() {
    std::int64_t most = -1;
    bool has_checksums = false;
    for (const std::string& target : root_.list("/sys/fs/lustre/osc")) {
      const std::string folder = "/sys/fs/lustre/osc/" + target;
      most = std::max(most, root_.read_number(folder + "/short_io_bytes").value_or(-1));
      has_checksums = has_checksums || root_.read_line(folder + "/checksums") == "1";
    }
    add("inline",
        most < 0 ? std::string("how small a request has to be to travel within its message cannot be read here")
                 : fmt::format("requests of up to {} bytes travel within their message (short I/O)", most),
        "lctl get_param osc.*.short_io_bytes (0: none)", "Lustre, osc.*.short_io_bytes");
    if (has_checksums) {
      add("transforms", "this client's CPU computes a checksum of each message (osc.*.checksums)",
          "lctl set_param osc.*.checksums=0", "Lustre Operations Manual");
    }
  }

  void add_nvme(const BlockDevice& device) {
    const std::string transport = device.kind == core::BlockKind::nvme ? device.remote_transport() : "";
    if (transport.empty()) return;
    add("server",
        fmt::format("{} is a namespace of NVMe over Fabrics ({}). NVIDIA's name for it is Magnum IO fabric, which "
                    "Linux does not know; what lies behind the target cannot be seen",
                    device.disk, transport),
        "nvme list-subsys; nvme discover -t rdma -a ADDRESS -s 4420 lists what the target offers", "nvme-discover(1)");
    add("replication", "whether an answered write outlives the target (RPO) is the target's", "at the target", kGuide);
  }

  void add_loop(const BlockDevice& device) {
    add("cache",
        fmt::format("{} reads and writes its file, {}, through the page cache: O_DIRECT of what lies on it ends there",
                    device.name, device.backing_file),
        fmt::format("losetup --direct-io=on /dev/{} has it go around, where the file itself takes O_DIRECT",
                    device.disk),
        "losetup(8)");
  }

  void add_layer(const BlockDevice& device, const core::BlockLayer& layer) {
    if (layer.role == core::LayerRole::replication) return add_drbd(device);
    std::string text = fmt::format("{}: {}", device.name, layer.what);
    if (layer.role == core::LayerRole::cache) text += ", below the page cache: O_DIRECT is served by either drive";
    if (layer.role == core::LayerRole::remote) {
      text += ", reached by " + device.remote_transport() + "; what its server does to the bytes does not show";
      if (!device.iscsi_target.empty()) text += " (" + device.iscsi_target + ")";
    }
    add(topic_of(layer.role), text, fmt::format(fmt::runtime(layer.ask), device.disk));
  }

  // Reads /proc/drbd, where the number of the device begins a line: " 0: cs:Connected ro:Primary/Secondary
  // ds:UpToDate/UpToDate C r-----".
  void add_drbd(const BlockDevice& device) {
    constexpr const char* kManual = "DRBD User's Guide, Replication modes";
    const std::string number = device.disk.substr(std::string_view("drbd").size());
    const std::string all = root_.read("/proc/drbd").value_or(std::string());
    const auto words = core::split(core::value_of(all, number, ':'), ' ');
    const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    const char* text = "is replicated over the network, by a protocol that cannot be read here";
    if (has("C")) text = "is replicated over the network by protocol C: a write ends when both drives have it (RPO 0)";
    if (has("B")) text = "is replicated over the network by protocol B: a write is lost if both ends fail at once";
    if (has("A")) text = "is replicated over the network by protocol A: what was on its way is lost with this end";
    add("replication", device.name + " " + text, "drbdsetup show (protocol)", kManual);
    if (!words.empty() && !has("cs:Connected")) {
      add("replication", device.name + " is not connected: what is written now has no copy", "drbdadm status", kManual);
    }
  }

  const Root& root_;
  StorageNotes notes_;
};

}  // namespace

StorageNotes storage_notes(const Root& root, const std::optional<Mount>& mount,
                           const std::optional<BlockDevice>& stack) {
  Notes notes(root);
  if (mount && core::is_network_file_system(mount->type)) notes.add_network(*mount);
  else if (mount) notes.add_local(*mount);
  if (stack) notes.add_stack(*stack);
  return std::move(notes).sorted();
}

}  // namespace penstock::facts
