# SPDX-License-Identifier: Apache-2.0

# Man pages, made of what --help of the built tool says, and where they are installed. A tool that is built for another
# machine cannot be asked.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING)
  message(STATUS "No man pages: they need Python 3, and a tool that runs on this machine")
  return()
endif()

set(man_pages ${PROJECT_BINARY_DIR}/man)
add_custom_command(OUTPUT ${man_pages}/penstock.1
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/manual.py man
          ${PROJECT_BINARY_DIR} ${PROJECT_VERSION} ${man_pages}
  DEPENDS penstock_tool ${PROJECT_SOURCE_DIR}/scripts/manual.py
  COMMENT "Man pages" VERBATIM)
add_custom_target(penstock_man_pages ALL DEPENDS ${man_pages}/penstock.1)
install(DIRECTORY ${man_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL FILES_MATCHING PATTERN "*.1")
