// SPDX-License-Identifier: Apache-2.0

// How long a save or a load takes on a node by each kind of path, how often to save, and what it costs a run in hours
// and money. Closed forms over stages, each with a rate; pure. Used by checkpoint_report and published.
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
  kDirect,     // The drives' DMA engines into GPU memory.
  kBounce,     // Through pinned host memory, every stage overlapped with the others.
  kSerial,     // Through the host, one stage after the other.
  kPoor,       // As slow as the published host path.
  kTorchSave,  // torch.save: one rank writes all bytes into one file.
  kMeasured,   // The rate that a calibration measured.
};
std::string_view path_model_name(PathModel kind);

struct Fleet {
  double ranks = 8;  // GPUs of all nodes together.
  double nodes = 1;
  double drives = 4;                   // Drives per node.
  double drive_bytes_per_s = 14e9;     // The ceiling of one drive, of which real use reaches a share.
  double drive_share = 0;              // That share; 0: the constant drive.share. 1: the rate is one in use.
  double drive_write_bytes_per_s = 0;  // What one drive writes in use; 0: the same share.
  double drive_cache_bytes = 0;        // Cache of all drives of a node, which a save fills at the full rate.
  double fabric_bytes_per_s = 0;       // Rate of storage shared by all nodes, instead of local drives; 0: none.
  double measured_bytes_per_s = 0;     // Calibrated rate of a node; 0: not measured.
};

struct Job {
  bool is_load = false;
  double bytes = 0;            // Bytes of all ranks together; in a replicated load, of one rank.
  bool is_sharded = true;      // Every rank moves its part; otherwise one rank of each node moves the node's part.
  bool is_replicated = false;  // Load only: every rank needs all bytes.
  double files = 0;            // Number of files, opened sequentially, each with a latency; 0: negligible.
};

double drive_in_use(const Fleet& fleet, const Constants& constants);  // B/s that one drive reaches in use.
void check(const Fleet& fleet);                                       // Both throw InvalidInput.
void check(const Job& job);

struct Stage {
  std::string_view name;
  double bytes;  // Bytes of one node.
  double bytes_per_s;
  double seconds() const { return bytes / bytes_per_s; }
};
struct Duration {
  double seconds = 0;
  std::string_view binds;  // Name of the slowest stage.
};
std::vector<Stage> stages(PathModel kind, const Job& job, const Fleet& fleet, const Constants& constants);
Duration duration(PathModel kind, const Job& job, const Fleet& fleet, const Constants& constants);

// How many bytes can be moved within window_s.
double bytes_within(PathModel kind, Job job, const Fleet& fleet, const Constants& constants, double window_s);
// How many drives per node are needed to finish within window_s; 0 if no number is enough.
double drives_within(PathModel kind, const Job& job, Fleet fleet, const Constants& constants, double window_s);

// The time to copy a checkpoint to host memory; then training continues.
double snapshot_s(const Job& job, const Fleet& fleet, const Constants& constants);

// Bytes of a training checkpoint.
struct ModelSize {
  double parameters = 0;
  double weight_bytes = 2;     // BF16.
  double optimizer_bytes = 8;  // Adam: two moments in FP32; 12 with a master copy, 4 for momentum alone, 0 for none.
  double bytes() const { return parameters * (weight_bytes + optimizer_bytes); }
};
// The job with the bytes of that model; the same job if the model has no parameters. Throws InvalidInput.
Job sized(Job job, const ModelSize& model);

struct Training {
  double hours = 168;
  double failure_s = 0;   // Mean time between failures of the whole run.
  double stall_s = 0;     // Time that training stops for a checkpoint.
  double save_s = 0;      // Time until the checkpoint is usable; at least stall_s.
  double recovery_s = 0;  // Time from a failure until training continues.
  double period_s = 0;    // Time between the starts of two checkpoints; 0: the optimum.
  double gpus = 8;
  double gpu_hour_price = 0;
};
void check(const Training& run);

// Refuses more saves than the run has room for, when each takes save_s at least. Throws InvalidInput.
void check_room(double saves, double hours, const std::vector<double>& saves_s);

double failure_s(double ranks, const Constants& constants);
double young_daly_s(double save_s, double failure_s);  // Work between two checkpoints.
double best_period_s(const Training& run);             // The period with the best goodput; includes the stall.
double goodput(const Training& run, double period_s);  // The share of the time that is useful work.

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
