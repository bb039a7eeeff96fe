// SPDX-License-Identifier: Apache-2.0

// Notes on network file systems by type: the server's part as NVIDIA's O_DIRECT guide has it, and the command by which
// the server, or the file system's own tool on this machine, shows more. Data alone; storage_notes.h puts it beside the
// facts that this client shows.
#pragma once

#include <iterator>
#include <string_view>

namespace penstock::facts {

struct NetworkNote {
  std::string_view type;  // The type of the file system; types with the same notes share one, see note_type().
  const char* topic;      // One of the topics in storage_notes.h.
  const char* text;
  const char* ask;     // The command that shows more; "" for none.
  const char* source;  // The document that says so.
};

constexpr const char* kGuide = "NVIDIA, GPUDirect Storage O_DIRECT Requirements Guide";

constexpr NetworkNote kNetworkNotes[] = {
    {"nfs", "server", "the server's support of RDMA shows to a client only where RDMA is in use",
     "on the server: cat /proc/fs/nfsd/portlist (a line 'rdma 20049')", "Linux, Documentation/admin-guide/nfs"},
    {"nfs", "allocation", "the server allocates blocks; its own file system may buffer there, and this client does not",
     "on the server: penstock check --try FOLDER", kGuide},
    {"nfs", "transforms", "compression, deduplication, encryption and erasure coding at the server do not show in NFS",
     "on the server: its volume's properties, as zfs get compression,dedup,encryption", kGuide},
    {"nfs", "replication",
     "whether an answered write outlives the server (RPO) is the server's: an export with 'async' may lose it",
     "on the server: exportfs -v (sync or async), and what its volume is replicated by", "exports(5)"},

    {"cifs", "server", "the server's interfaces that can do RDMA are listed by this client",
     "cat /proc/fs/cifs/DebugData (RDMA capable)", "Linux, Documentation/admin-guide/cifs"},
    {"cifs", "allocation", "the server allocates blocks", "on the server: penstock check --try FOLDER", kGuide},
    {"cifs", "transforms", "compression, deduplication and encryption on the server's disks do not show in SMB",
     "on the server: its volume's properties", kGuide},
    {"cifs", "replication", "whether an answered write outlives the server (RPO) is the server's",
     "on the server: its share's properties (continuous availability)", kGuide},

    {"lustre", "server", "LNet can list the network by which each server is reached",
     "lctl list_nids; lctl which_nid SERVER", "Lustre Operations Manual"},
    {"lustre", "inline", "small files may lie in the metadata server's reply (Data-on-MDT), and not in objects of OSTs",
     "lfs getstripe FILE (pattern mdt)", "Lustre Operations Manual"},
    {"lustre", "allocation", "object storage servers allocate blocks; the client has grants of room, and no blocks",
     "lctl get_param osc.*.cur_grant_bytes", "Lustre Operations Manual"},
    {"lustre", "transforms", "erasure coding and compression are those of the servers' disks (ldiskfs, ZFS)",
     "on a storage server: lctl get_param osd-*.*.*", "Lustre Operations Manual"},
    {"lustre", "replication", "mirrors of a file are written after it was (RPO: since the last resync)",
     "lfs getstripe FILE (lcm_mirror_count); lfs mirror resync FILE", "Lustre Operations Manual"},

    {"gpfs", "cache",
     "O_DIRECT whose offset, size and memory are multiples of 512 bytes (4 KiB on disks with such sectors) goes past "
     "GPFS's page pool, which is memory of its own beside the page cache; all else goes through the pool and is "
     "flushed. The pool shows in no count of the kernel",
     "mmdiag --iohist; mmlsconfig pagepool", "IBM Storage Scale, Considerations for the use of direct I/O (O_DIRECT)"},
    {"gpfs", "server", "whether servers are reached by RDMA (verbs) is a setting of GPFS",
     "mmlsconfig verbsRdma; mmdiag --network", "IBM Storage Scale, mmchconfig"},
    {"gpfs", "inline", "data of files that fit lies in their inodes (data-in-inode), and is copied with these",
     "mmlsfs DEVICE -i (size of inodes)", "IBM Storage Scale, Use of disk storage and file structure"},
    {"gpfs", "allocation",
     "this node allocates blocks itself, in the regions of the disks that the file system manager gave it: as the "
     "guide has it, a client that allocates may buffer",
     "mmlsfs DEVICE -j", "IBM Storage Scale, File system manager"},
    {"gpfs", "transforms",
     "compression and encryption are attributes of each file; erasure coding is its recovery groups'",
     "mmlsattr -L FILE; mmlsrecoverygroup", "IBM Storage Scale, mmlsattr"},
    {"gpfs", "replication", "how many copies a write has is an attribute of each file",
     "mmlsattr -L FILE (data replication)", "IBM Storage Scale, mmlsattr"},

    {"beegfs", "server", "BeeGFS can list the transport by which each server is reached", "beegfs-net",
     "BeeGFS documentation"},
    {"beegfs", "inline", "Penstock does not know whether small transfers travel within messages, through host memory",
     "", ""},
    {"beegfs", "allocation", "the storage servers allocate the blocks: each chunk is a file on one of them",
     "on a storage server: penstock check --try FOLDER", "BeeGFS documentation, Striping"},
    {"beegfs", "transforms", "compression and erasure coding are those of the servers' own file systems and disks",
     "on a storage server: its volume's properties", "BeeGFS documentation, Striping"},
    {"beegfs", "replication",
     "with buddy mirroring a write is on both servers when it is answered (RPO 0), else on one",
     "beegfs entry info FILE; beegfs-ctl --getentryinfo FILE", "BeeGFS documentation, Mirroring"},

    {"wekafs", "server", "WEKA's client speaks with its back ends by its own network, by DPDK or UDP",
     "weka local resources; weka status", "WEKA documentation"},
    {"wekafs", "inline", "Penstock does not know whether small transfers travel within messages, through host memory",
     "", ""},
    {"wekafs", "allocation", "its back ends allocate the blocks", "", "WEKA documentation"},
    {"wekafs", "transforms",
     "erasure coding (N+2, N+4) is the cluster's, chosen when it was formed; data reduction and encryption are a file "
     "system's",
     "weka status; weka fs -v", "WEKA documentation, WEKA system functionality features"},
    {"wekafs", "replication",
     "an answered write outlives the failure of as many back ends as the protection level says",
     "weka status (protection)", "WEKA documentation, WEKA system functionality features"},

    {"ceph", "server", "the kernel's Ceph client has TCP alone, whatever the OSDs can do", "",
     "Linux, net/ceph/messenger.c"},
    {"ceph", "inline", "small files may lie in the metadata server's inodes, where an old file system has inline_data",
     "ceph fs get NAME (inline_data)", "Ceph documentation"},
    {"ceph", "allocation", "OSDs allocate", "", "Ceph documentation"},
    {"ceph", "transforms", "the primary OSD does erasure coding, and OSDs compress: this client does neither",
     "ceph osd pool get POOL all", "Ceph documentation, Erasure code"},
    {"ceph", "replication", "a write is answered when all replicas of its placement group have it (RPO 0)",
     "ceph osd pool get POOL size", "Ceph documentation, Replication"},

    {"", "server", "Penstock does not know what the server of this file system can do", "", ""},
    {"", "inline", "Penstock does not know whether small transfers travel within messages, through host memory", "",
     ""},
    {"", "allocation", "Penstock does not know who allocates its blocks", "", ""},
    {"", "transforms", "Penstock does not know whether its server compresses, deduplicates or encrypts", "", ""},
    {"", "replication", "Penstock does not know whether it keeps replicas", "", ""},
};

// The type under which the table has a file system.
constexpr std::string_view note_type(std::string_view type) {
  if (type.starts_with("nfs")) return "nfs";
  if (type == "smb3") return "cifs";
  if (type.starts_with("beegfs")) return "beegfs";
  for (const NetworkNote& note : kNetworkNotes) {
    if (note.type == type) return note.type;
  }
  return "";
}

}  // namespace penstock::facts
