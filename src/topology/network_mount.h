// SPDX-License-Identifier: Apache-2.0

// What this client can see of a network file system's mount: by which transport its bytes travel, whose NFS client
// serves it, what its CPU does to each byte, and whether a local cache keeps copies. Read from /proc and /sys alone;
// of the server nothing is asked.
#pragma once

#include <string>

#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::core {

// "rdma", "tcp", "virtio", ...; "" where nothing tells. For NFS the one in use; else as the mount says.
std::string network_transport(const Root& root, const Mount& mount);

// VAST's NFS client stands in the place of the kernel's, for every NFS mount of the machine. What is served by VAST
// shows only where a mount uses that client's multipath: NFS names no maker of a server.
struct VastClient {
  bool is_loaded = false;
  std::string version;  // "4.0.35-vastdata"; "" where only the option tells.
  std::string option;   // Of the mount, which no other client has: "remoteports"; "" where it has none.
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

// What the mount has this client's CPU do to every byte: "encrypts (sec=krb5p)"; "" for nothing.
std::string client_transform(const Mount& mount);

}  // namespace penstock::core
