# SPDX-License-Identifier: Apache-2.0

# PENSTOCK_TOOLS=AUTO, which pyproject.toml says: the tool is built where its libraries are, and is no reason for pip to
# fail where they are not. The package tells then what to install (python/penstock/launcher.py).
if(PENSTOCK_TOOLS STREQUAL AUTO)
  find_package(fmt QUIET)
  find_package(CLI11 QUIET)
  set(PENSTOCK_TOOLS OFF)
  if(fmt_FOUND AND CLI11_FOUND)
    set(PENSTOCK_TOOLS ON)
  else()
    message(WARNING "The command penstock is left out, since CLI11 or fmt is not here. Install both and build again to "
                    "have it: on Debian and Ubuntu `apt install libcli11-dev libfmt-dev`.")
  endif()
endif()
