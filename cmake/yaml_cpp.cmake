# SPDX-License-Identifier: Apache-2.0

# PENSTOCK_YAML_CPP: what to link for yaml-cpp. Other distributions lack the shared one.
find_package(yaml-cpp REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)  # Before yaml-cpp 0.8.
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
set(PENSTOCK_YAML_CPP yaml-cpp::yaml-cpp)
if(PENSTOCK_PORTABLE)
  find_library(PENSTOCK_YAML_ARCHIVE libyaml-cpp.a REQUIRED)
  set(PENSTOCK_YAML_CPP ${PENSTOCK_YAML_ARCHIVE})
endif()
