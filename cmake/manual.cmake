# SPDX-License-Identifier: Apache-2.0

# Man pages, a page of all of them, and what shells complete: made of what --help of the built programs says, and where
# they are installed. One that is built for another machine cannot be asked. Who makes packages should not find out
# later that they are missing.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(NOT Python3_FOUND OR CMAKE_CROSSCOMPILING)
  message(FATAL_ERROR "Man pages and completions cannot be made: they need Python 3 (found: '${Python3_EXECUTABLE}') "
                      "and a tool that runs on this machine (CMAKE_CROSSCOMPILING: '${CMAKE_CROSSCOMPILING}'). Install "
                      "python3, or build without them: -DPENSTOCK_MANUAL=OFF")
endif()

set(man_pages ${PROJECT_BINARY_DIR}/man)
set(completions ${PROJECT_BINARY_DIR}/completions)
set(reference ${PROJECT_BINARY_DIR}/docs/command-line.md)
add_custom_command(OUTPUT ${man_pages}/penstock.1
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/manual.py man
          ${PROJECT_BINARY_DIR} ${PROJECT_VERSION} ${man_pages}
  DEPENDS ${PENSTOCK_PROGRAMS} ${PROJECT_SOURCE_DIR}/scripts/manual.py
  COMMENT "Man pages" VERBATIM)
add_custom_command(OUTPUT ${reference}
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/manual.py reference ${PROJECT_BINARY_DIR} ${reference}
  DEPENDS ${PENSTOCK_PROGRAMS} ${PROJECT_SOURCE_DIR}/scripts/manual.py
  COMMENT "All of --help in one page" VERBATIM)
add_custom_command(OUTPUT ${completions}/bash/penstock
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${completions}
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/scripts/completions.py ${PROJECT_BINARY_DIR} ${completions}
  DEPENDS ${PENSTOCK_PROGRAMS} ${PROJECT_SOURCE_DIR}/scripts/manual.py
          ${PROJECT_SOURCE_DIR}/scripts/completions.py
  COMMENT "Completions" VERBATIM)
add_custom_target(penstock_manual ALL DEPENDS ${man_pages}/penstock.1 ${completions}/bash/penstock ${reference})

install(FILES ${reference} DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Messages name pages as docs/guide/slow.md. Pages link to each other, so that they lie as in the tree.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
# Where man and the shells look.
install(DIRECTORY ${man_pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY ${completions}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY ${completions}/zsh/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(DIRECTORY ${completions}/fish/ DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
