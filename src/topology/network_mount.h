// SPDX-License-Identifier: Apache-2.0

// A network file system's mount as this client sees it: by which transport its bytes travel, whose NFS client serves
// it, what its CPU does to each byte, and whether a local cache keeps copies. Read from /proc and /sys alone; the
// server is asked nothing.
#pragma once

#include <string>

#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::core {

// "rdma", "tcp", "virtio", ...; "" if nothing tells. For NFS the transport in use; else the mount's word for it.
std::string network_transport(const Root& root, const Mount& mount);

// VAST's NFS client stands in the place of the kernel's, for every NFS mount of the machine. A mount shows that VAST
// serves it only if it uses that client's multipath: NFS names no maker of a server.
struct VastClient {
  bool is_loaded = false;
  std::string version;  // "4.0.35-vastdata"; "" if only the option tells.
  std::string option;   // An option of the mount that no other client has: "remoteports"; or "".
};
VastClient vast_client(const Root& root, const Mount& mount);
// "VAST's NFS client 4.0.35, multipath by remoteports"; "" for another client.
std::string text_of(const VastClient& client);

// fscache: the mount asks for copies on a local drive (fsc), and something there keeps them (cachefiles).
struct LocalCache {
  bool is_wanted = false;
  bool is_there = false;
};
LocalCache local_cache(const Root& root, const Mount& mount);

// The work that the mount gives this client's CPU for every byte: "encrypts (sec=krb5p)"; or "".
std::string client_transform(const Mount& mount);

}  // namespace penstock::core
