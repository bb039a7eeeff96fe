// SPDX-License-Identifier: Apache-2.0

// Machines rented by the hour, and file systems that they may share, as data: model/platforms.yaml, or a user's file of
// the same form. Everything is validated; InvalidInput names the file, the line and the expected value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::model {

enum class GdsStanding : unsigned char { ready, install, custom_image, none };
std::string_view gds_standing_words(GdsStanding standing);

struct Platform {
  std::string name;
  std::string gpu;
  unsigned gpus = 8;
  std::optional<double> on_demand;  // $ per GPU and hour.
  std::optional<double> spot;
  std::optional<unsigned> drives;  // Local drives; nothing: unknown.
  double drives_hour = 0;          // $ per hour for a node's drives, if its price does not include them.
  GdsStanding gds = GdsStanding::none;
  double billing_s = 1;
  std::string source;

  bool may_go_direct() const { return gds != GdsStanding::none && drives.value_or(1) > 0; }
};

// Rate and price are proportional to the size, as at cloud providers.
struct FileSystem {
  std::string name;
  double terabytes = 1;  // 0 if it is not known, as of one that is only offered.
  double bytes_per_s = 0;
  double month_money = 0;
  std::string source;
  double read_bytes_per_s = 0;  // Of loads, where it is not the rate of saves, too; else 0.

  double rate(bool is_load) const { return is_load && read_bytes_per_s > 0 ? read_bytes_per_s : bytes_per_s; }
  FileSystem of_size(double wanted_terabytes) const;
};

std::string_view platforms_text();  // Of model/platforms.yaml.
std::vector<Platform> parse_platforms(const std::string& text, const std::string& name);
std::vector<FileSystem> parse_file_systems(const std::string& text, const std::string& name);  // May return none.

}  // namespace penstock::model
