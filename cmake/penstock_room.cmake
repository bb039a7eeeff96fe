# SPDX-License-Identifier: Apache-2.0

# A room is one folder of src/ as a static library with its unit tests:
#
#   penstock_room(plan SOURCES plan.cc NEEDS base TESTS plan_test.cc)
#
# Sources and tests are listed, never globbed; test/lint/ checks that no *_test.cc is forgotten.

add_library(penstock_flags INTERFACE)
target_compile_features(penstock_flags INTERFACE cxx_std_20)
target_compile_definitions(penstock_flags INTERFACE _GNU_SOURCE)
target_compile_options(penstock_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Wno-missing-field-initializers -fno-omit-frame-pointer
  # What GCC's -Wconversion leaves alone in C++, clang looks at in test/lint/clang.py alone.
  "$<$<CXX_COMPILER_ID:Clang>:-Wthread-safety;-Wthread-safety-beta;-Wno-sign-conversion>")
if(PENSTOCK_DEVELOPER)
  target_compile_options(penstock_flags INTERFACE -Werror)
endif()
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock_flags INTERFACE -fsanitize=${PENSTOCK_SANITIZE} -fno-sanitize-recover=all
                                                  -fno-sanitize=vptr
    # Instrumented, GCC 12 sees the first inside <regex> and <variant>, where it is not; the second is about a fence
    # that other processes need.
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-tsan>")
  target_link_options(penstock_flags INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()

# The core: it throws nothing and knows no RTTI. What the standard library throws where memory is short unwinds through
# it, and ends at src/base/shortage.h.
add_library(penstock_core_flags INTERFACE)
target_link_libraries(penstock_core_flags INTERFACE penstock_flags)
target_compile_options(penstock_core_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)

# All rooms under the public faces, the users of others first.
set(PENSTOCK_ROOMS penstock_frontend penstock_session penstock_engine penstock_stats penstock_path penstock_topology
    penstock_device penstock_stripe penstock_checksum penstock_storage penstock_settings penstock_plan penstock_core
    penstock_base)
set(PENSTOCK_ROOMS_OF_A_REQUEST core plan storage device path engine session frontend)

# What nearly every source of the core reads, compiled once for all where objects are joined: in base, and in core for
# who guards arrays alone, since GCC takes no headers that were compiled under another guard. A build that compiles each
# file by itself goes without, so that a missing include shows.
function(penstock_core_headers target)
  cmake_parse_arguments(HEADERS "" "OF" "" ${ARGN})
  if(NOT PENSTOCK_JOINED)
    return()
  elseif(NOT target STREQUAL HEADERS_OF)
    target_precompile_headers(${target} REUSE_FROM ${HEADERS_OF})
  else()
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <atomic> <chrono> <functional> <map> <memory> <optional> <span> <string> <string_view>
      <utility> <vector>)
  endif()
endfunction()

# What is built to be used, or to be tested as a whole, is compiled by folders, sixteen files to an object, in half the
# time. Those APART have names that others have, too. INTO: all of several folders, as one object of that name. `./dev
# build` compiles each file by itself, which shows that it includes what it needs, and after a change that file alone.
function(penstock_join target)
  cmake_parse_arguments(JOIN "" "INTO" "SOURCES;APART" ${ARGN})
  if(NOT PENSTOCK_JOINED)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(NOT JOIN_SOURCES)
    get_target_property(JOIN_SOURCES ${target} SOURCES)
  endif()
  list(REMOVE_ITEM JOIN_SOURCES ${JOIN_APART} "")
  list(FILTER JOIN_SOURCES EXCLUDE REGEX "^/")  # Made by the build: texts, which no header keeps waiting.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE room)
  set(number 0)
  foreach(source IN LISTS JOIN_SOURCES)
    cmake_path(GET source PARENT_PATH folder)
    math(EXPR part "${number} / 16")
    math(EXPR number "${number} + 1")
    string(MAKE_C_IDENTIFIER "${room}/${folder}/${part}" group)
    if(JOIN_INTO)
      set(group ${JOIN_INTO})
    endif()
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${group})
  endforeach()
endfunction()

# For a folder whose programs wait for the library, not for their own code: lines for backtraces and no more for
# debuggers, and in a wheel, which pip compiles while its user waits, less optimisation. With templates like theirs,
# that is a third of the time to compile.
macro(penstock_compile_sooner)
  string(REPLACE "-g " "-g1 " CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
  if(SKBUILD)
    string(REPLACE "-O2" "-O1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
  endif()
endmacro()

function(penstock_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;NEEDS;TESTS;TEST_NEEDS;APART" ${ARGN})
  add_library(penstock_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(penstock_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  list(TRANSFORM ROOM_NEEDS PREPEND penstock_)
  target_link_libraries(penstock_${name} PUBLIC ${ROOM_NEEDS} PRIVATE penstock_core_flags)
  if(name IN_LIST PENSTOCK_ROOMS_OF_A_REQUEST)
    penstock_guard_arrays_only(penstock_${name})
    penstock_core_headers(penstock_${name} OF penstock_core)
  else()
    penstock_core_headers(penstock_${name} OF penstock_base)
  endif()
  penstock_join(penstock_${name} APART ${ROOM_APART})
  if(PENSTOCK_TESTS AND ROOM_TESTS)
    penstock_test(penstock_${name}_test SOURCES ${ROOM_TESTS} NEEDS penstock_${name} ${ROOM_TEST_NEEDS})
  endif()
endfunction()

# A public face: entry points that are seen outside of the libraries. They go without the core's headers: a type that
# was compiled as hidden, such as timespec, hides the functions that take it.
function(penstock_face_objects name)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET default)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE penstock_core_flags)
  penstock_guard_arrays_only(${name})
  penstock_join(${name})
endfunction()

# A shared library of faces and all rooms under them, in lib/ of the build; `soversion` is the end of its SONAME.
function(penstock_shared_library target name soversion map)
  add_library(${target} SHARED ${ARGN})
  add_library(penstock::${name} ALIAS ${target})  # As find_package names it: for who has this tree in a tree of theirs.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION}
                        SOVERSION ${soversion}
                        LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${map}
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_compile_features(${target} INTERFACE cxx_std_17)
  target_link_libraries(${target} PRIVATE ${PENSTOCK_ROOMS} penstock_core_flags)
  # nodelete: our threads and thread-local values must not outlive the code. Symbolic: a process may hold both
  # libraries, and each calls itself.
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${map} -Wl,-z,nodelete -Wl,-Bsymbolic-functions)
  if(NOT PENSTOCK_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

# What `./dev arm` builds.
add_custom_target(penstock_unit_tests)

# Of a program's sources the tests, six to an object: to read the headers takes longer than all that is in most of them.
function(penstock_join_tests sources name)
  set(rest ${${sources}})
  set(tests ${rest})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "shortage_test\\.cc$")  # They replace operator new.
  list(REMOVE_ITEM rest "" ${tests})
  list(LENGTH tests count)
  if(count LESS 2)
    return()
  endif()
  set(awk ${PROJECT_SOURCE_DIR}/cmake/joined_tests.awk)
  while(tests)
    list(SUBLIST tests 0 12 some)
    list(REMOVE_ITEM tests ${some})
    list(LENGTH tests left)
    set(joined ${CMAKE_CURRENT_BINARY_DIR}/${name}_${left}.cc)
    # Named from where the compiler runs, so that its messages and debuggers find them.
    set(named)
    foreach(test IN LISTS some)
      cmake_path(ABSOLUTE_PATH test BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      cmake_path(RELATIVE_PATH test BASE_DIRECTORY ${PROJECT_BINARY_DIR})
      list(APPEND named ${test})
    endforeach()
    add_custom_command(OUTPUT ${joined} COMMAND awk -v out=${joined} -f ${awk} ${named} DEPENDS ${some} ${awk}
                       WORKING_DIRECTORY ${PROJECT_BINARY_DIR} COMMENT "Joining tests of ${name}" VERBATIM)
    list(APPEND rest ${joined})
  endwhile()
  set(${sources} ${rest} PARENT_SCOPE)
endfunction()

# One test program; ALONE where its tests must not run beside others. HEADERS: what it has precompiled in place of what
# all have. Compiled without RTTI like the core, since its fakes derive from the core's seams.
function(penstock_test name)
  cmake_parse_arguments(TEST "ALONE" "LABEL" "SOURCES;NEEDS;HEADERS" ${ARGN})
  if(NOT TEST_LABEL)
    set(TEST_LABEL unit)
  endif()
  penstock_join_tests(TEST_SOURCES ${name})
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -fno-rtti)
  target_link_libraries(${name} PRIVATE ${TEST_NEEDS} penstock_flags GTest::gtest GTest::gtest_main)
  if(TEST_HEADERS)
    target_precompile_headers(${name} PRIVATE ${TEST_HEADERS})
  else()
    target_precompile_headers(${name} REUSE_FROM penstock_test_headers)
  endif()
  if(TEST_LABEL STREQUAL unit)
    add_dependencies(penstock_unit_tests ${name})
  endif()
  # Listing opens a session for some programs, which takes longer than the default of 5 s on a busy machine with a GPU.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 900
                       PROPERTIES LABELS ${TEST_LABEL} TIMEOUT 900 RUN_SERIAL ${TEST_ALONE})
endfunction()
