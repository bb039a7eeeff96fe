// SPDX-License-Identifier: Apache-2.0

#include "topology/network_mount.h"

#include <array>
#include <string_view>

namespace penstock::core {
namespace {

bool is_nfs(const Mount& mount) { return mount.type.starts_with("nfs"); }
bool is_smb(const Mount& mount) { return mount.type == "cifs" || mount.type == "smb3"; }

// Options that the kernel's own client does not have (VAST NFS 4.0 and later, "Mount parameters").
constexpr std::array<std::string_view, 6> kVastOptions = {"remoteports",   "localports", "spread_reads",
                                                          "spread_writes", "mdconnect",  "pconnect"};
constexpr const char* kBundleVersion = "/sys/module/sunrpc/parameters/nfs_bundle_version";

bool has_option(const Mount& mount, std::string_view name) {
  return mount.has_super_option(name) || !mount.super_option(name).empty();
}

struct Transform {
  std::string_view option;  // One of the mount's options.
  const char* what;
};
constexpr std::array<Transform, 6> kTransforms = {{{"sec=krb5p", "encrypts (sec=krb5p)"},
                                                   {"sec=krb5i", "computes checksums (sec=krb5i)"},
                                                   {"xprtsec=tls", "encrypts (xprtsec=tls)"},
                                                   {"xprtsec=mtls", "encrypts (xprtsec=mtls)"},
                                                   {"seal", "encrypts (seal)"},
                                                   {"sign", "computes checksums (sign)"}}};

// The network in the addresses of Lustre's servers: "10.0.0.1@o2ib:/fs".
std::string lustre_transport(const Mount& mount) {
  if (mount.source.find("@o2ib") != std::string::npos) return "rdma";
  return mount.source.find("@tcp") != std::string::npos ? "tcp" : "";
}

}  // namespace

std::string network_transport(const Root& root, const Mount& mount) {
  if (is_nfs(mount)) return nfs_transport(root, mount);
  if (is_smb(mount)) return mount.has_super_option("rdma") ? "rdma" : "tcp";
  if (mount.type == "lustre") return lustre_transport(mount);
  if (mount.type == "ceph") return "tcp";  // The kernel's client supports no other transport.
  if (mount.type == "9p") return std::string(mount.super_option("trans"));
  return mount.type == "virtiofs" ? "virtio" : "";
}

VastClient vast_client(const Root& root, const Mount& mount) {
  VastClient client;
  if (!is_nfs(mount)) return client;
  client.version = root.read_line(kBundleVersion);
  for (const std::string_view option : kVastOptions) {
    if (client.option.empty() && has_option(mount, option)) client.option = std::string(option);
  }
  client.is_loaded = !client.version.empty() || !client.option.empty();
  return client;
}

std::string text_of(const VastClient& client) {
  if (!client.is_loaded) return "";
  std::string text = "VAST's NFS client";
  if (!client.version.empty()) text += " " + client.version;
  if (!client.option.empty()) text += ", multipath by " + client.option;
  return text;
}

LocalCache local_cache(const Root& root, const Mount& mount) {
  return {has_option(mount, "fsc"), root.exists("/sys/module/cachefiles")};
}

std::string client_transform(const Mount& mount) {
  if (!is_nfs(mount) && !is_smb(mount)) return "";
  for (const Transform& one : kTransforms) {
    if (mount.has_super_option(one.option)) return one.what;
  }
  return "";
}

}  // namespace penstock::core
