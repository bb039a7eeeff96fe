// SPDX-License-Identifier: Apache-2.0

// Finds the library's settings in the environment, and the variables that only look like settings: the library ignores
// a misspelt name, so no tool may show it as if it were in force. The tools look at the environment here alone, through
// the library's own access to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "settings/table.h"

namespace penstock::facts {

constexpr std::string_view kPrefix = "PENSTOCK_";

// Names and values, sorted.
using Variables = std::vector<std::pair<std::string, std::string>>;

struct EnvironmentSettings {
  Variables known;    // PENSTOCK_... names that the library reads.
  Variables unknown;  // Names that begin with PENSTOCK_ and that nothing reads.
};
EnvironmentSettings environment_settings();
// Sorts the given variables in the same way; cuFile's are left out.
EnvironmentSettings sorted_by_use(const Variables& variables);
// The variables that the library reads, or says to have no effect: cuFile's (CUFILE_...), cuObject's (CUOBJ_...) and
// the known ones of Penstock.
Variables variables_for_library();

// Takes these variables out of the environment for as long as the object lives. No other thread may use the environment
// meanwhile.
class WithoutVariables {
 public:
  explicit WithoutVariables(Variables variables);
  ~WithoutVariables();
  WithoutVariables(const WithoutVariables&) = delete;
  WithoutVariables& operator=(const WithoutVariables&) = delete;

 private:
  const Variables variables_;
};

// Finds a setting by its name, by its key in cufile.json or by its variable.
std::optional<core::Setting> setting_by_any_name(std::string_view name);

// The name that a session's setting has for a known variable: "policy" for PENSTOCK_POLICY; "" for other variables.
std::string library_setting(std::string_view variable);

// Why a variable of NVIDIA's library has no effect here; "" for any other variable.
std::string_view reason_without_effect(std::string_view variable);

// The name for users: short for Penstock's own settings, section and name for cuFile's.
std::string setting_name(core::Setting setting);
// The names of all settings that have an effect.
std::vector<std::string> setting_names();

// The known name that the user probably meant, or by which the variable is called today; "" if there is none.
std::string nearest_setting(std::string_view name);

}  // namespace penstock::facts
