// SPDX-License-Identifier: Apache-2.0

// How long a save or a load takes on a node by each kind of path, how often to save, and what a run loses to it in
// hours and money. Closed forms over stages with a rate each; pure. Used by checkpoint_report and published.
//
// Not modelled: contention inside a PCIe tree (model/pcie), file-system metadata, compression, and partial failures.
// Nodes are alike and do not share storage, unless fabric_bytes_per_s says what they share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/constants.h"

namespace penstock::model {

enum class PathModel {
  kDirect,    // The drives' DMA engines into GPU memory.
  kBounce,    // Through pinned host memory, every stage overlapped with the others.
  kSerial,    // Through the host, one stage after the other.
  kPoor,      // As slow as the published host path.
  kMeasured,  // What a calibration measured.
};
std::string_view path_model_name(PathModel kind);

struct Fleet {
  double ranks = 8;  // GPUs, all nodes together.
  double nodes = 1;
  double drives = 4;                   // In each node.
  double drive_bytes_per_s = 14e9;     // Of reads; of it, and of the share of it that real use reaches.
  double drive_write_bytes_per_s = 0;  // By its data sheet, which saves do not exceed; 0: as it reads.
  double drive_cache_bytes = 0;        // Of all drives of a node: taken at their full rate by a save.
  double fabric_bytes_per_s = 0;       // Shared by all nodes, in place of drives of their own; 0: there is none.
  double measured_bytes_per_s = 0;     // Of a node, by calibration; 0: not measured.
};

struct Job {
  bool is_load = false;
  double bytes = 0;            // Of all ranks together; in a replicated load, of one rank.
  bool is_sharded = true;      // Every rank moves its part; else one rank of each node moves the node's part.
  bool is_replicated = false;  // Load only: every rank wants all of it.
  double files = 0;  // Opened one after the other, each with a latency of its own; 0: few enough not to matter.
};

void check(const Fleet& fleet);  // Both throw InvalidInput.
void check(const Job& job);

struct Stage {
  std::string_view name;
  double bytes;  // Of one node.
  double bytes_per_s;
  double seconds() const { return bytes / bytes_per_s; }
};
struct Duration {
  double seconds = 0;
  std::string_view binds;  // The slowest stage.
};
std::vector<Stage> stages(PathModel kind, const Job& job, const Fleet& fleet, const Constants& constants);
Duration duration(PathModel kind, const Job& job, const Fleet& fleet, const Constants& constants);

// What can be done within so many seconds, all else as given.
double bytes_within(PathModel kind, Job job, const Fleet& fleet, const Constants& constants, double window_s);
// How many drives in each node it takes to be done within them; 0 where none would be enough.
double drives_within(PathModel kind, const Job& job, Fleet fleet, const Constants& constants, double window_s);

// The copy of a checkpoint out of the way, into memory of the host, behind which training goes on.
double snapshot_s(const Job& job, const Fleet& fleet, const Constants& constants);

// Bytes of a training checkpoint.
struct ModelSize {
  double parameters = 0;
  double weight_bytes = 2;     // BF16.
  double optimizer_bytes = 8;  // Adam: two moments in FP32; 12 with a master copy, 4 for momentum alone, 0 for none.
  double bytes() const { return parameters * (weight_bytes + optimizer_bytes); }
};

struct Training {
  double hours = 168;
  double failure_s = 0;   // Mean time between failures of the whole run.
  double stall_s = 0;     // Training stands still for a checkpoint.
  double save_s = 0;      // Until it can be used; at least stall_s.
  double recovery_s = 0;  // From a failure to training again.
  double period_s = 0;    // From the start of one checkpoint to that of the next; 0: the best.
  double gpus = 8;
  double gpu_hour_price = 0;
};
void check(const Training& run);

double failure_s(double ranks, const Constants& constants);
double young_daly_s(double save_s, double failure_s);  // Work between two checkpoints.
double best_period_s(const Training& run);             // Availability-optimal; stall included.
double goodput(const Training& run, double period_s);  // The part of the time that is work kept.

struct Losses {
  double period_s;
  double goodput;
  double stall_hours;
  double rework_hours;
  double recovery_hours;
  double hours() const { return stall_hours + rework_hours + recovery_hours; }
  double money;
};
Losses losses(const Training& run);

}  // namespace penstock::model
