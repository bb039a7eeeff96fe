// SPDX-License-Identifier: Apache-2.0

// A network file system's mount as this client sees it: the transport of its bytes, the NFS client that serves it, the
// work of the CPU for each byte, and whether a local cache keeps copies. Read from /proc and /sys alone; the server is
// not asked.
#pragma once

#include <string>

#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::core {

// "rdma", "tcp", "virtio", ...; "" if nothing shows it. For NFS the transport in use; for others the one that the mount
// names.
std::string network_transport(const Root& root, const Mount& mount);

// VAST's NFS client replaces the kernel's, for every NFS mount of the machine. A mount shows that VAST serves it only
// if it uses that client's multipath: NFS does not name the maker of a server.
struct VastClient {
  bool is_loaded = false;
  std::string version;  // "4.0.35-vastdata"; "" if only the option shows it.
  std::string option;   // An option of the mount that no other client has: "remoteports"; or "".
};
VastClient vast_client(const Root& root, const Mount& mount);
// Names the client: "VAST's NFS client 4.0.35, multipath by remoteports"; "" for another client.
std::string text_of(const VastClient& client);

// fscache. The mount asks for copies on a local drive (fsc), and a service keeps them (cachefiles).
struct LocalCache {
  bool is_wanted = false;
  bool is_there = false;
};
LocalCache local_cache(const Root& root, const Mount& mount);

// The work that the mount makes this client's CPU do for every byte: "encrypts (sec=krb5p)"; or "".
std::string client_transform(const Mount& mount);

}  // namespace penstock::core
