// SPDX-License-Identifier: Apache-2.0

// The library's settings in the environment, and variables that only seem to be some: a name with a slip in it is
// ignored by the library, and must not be shown as if it were in force. The only place where the tools look at the
// environment, by the library's own way to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "settings/table.h"

namespace penstock::facts {

// Names and values, sorted.
using Variables = std::vector<std::pair<std::string, std::string>>;

struct EnvironmentSettings {
  Variables known;    // PENSTOCK_... names that the library reads.
  Variables unknown;  // Names that begin so, and that nothing reads.
};
EnvironmentSettings environment_settings();
// The same for the given variables; cuFile's are left out.
EnvironmentSettings sorted_by_use(const Variables& variables);
// cuFile's variables, CUFILE_..., and those that are known.
Variables variables_for_library();

// While it lives, the environment has none of these variables. For a moment in which no other thread looks at it.
class WithoutVariables {
 public:
  explicit WithoutVariables(Variables variables);
  ~WithoutVariables();
  WithoutVariables(const WithoutVariables&) = delete;
  WithoutVariables& operator=(const WithoutVariables&) = delete;

 private:
  const Variables variables_;
};

// By its name, its key in cufile.json or its variable.
std::optional<core::Setting> setting_by_any_name(std::string_view name);

// A known variable's name as a setting of a session: "policy" for PENSTOCK_POLICY; "" for others.
std::string library_setting(std::string_view variable);

// The known name that was probably meant, or that the variable has now, or "".
std::string nearest_setting(std::string_view name);

}  // namespace penstock::facts
