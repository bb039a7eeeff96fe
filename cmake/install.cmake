# SPDX-License-Identifier: Apache-2.0

# What `cmake --install` puts where: both libraries, headers, the tool and its other names, and how others find them.
# The libraries are made in src/capi and src/cufile, which gives them their names and versions.
include(CMakePackageConfigHelpers)

install(FILES include/penstock/checksums.h include/penstock/cufile_session.h include/penstock/device_memory.h
              include/penstock/futures.hpp include/penstock/gpu.cuh include/penstock/gpu.h
              include/penstock/gpu_cache.cuh include/penstock/gpu_groups.cuh include/penstock/gpu_layout.cuh
              include/penstock/gpu_ring.cuh include/penstock/penstock.h include/penstock/penstock.hpp
              include/penstock/stripes.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)
if(TARGET penstock_tool)
  set(PENSTOCK_PROGRAMS penstock_tool)
  foreach(program IN ITEMS penstock_k8s_tool penstock_model_tool)
    if(TARGET ${program})
      list(APPEND PENSTOCK_PROGRAMS ${program})
    endif()
  endforeach()
  install(TARGETS ${PENSTOCK_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  list(TRANSFORM PENSTOCK_TOOL_FACES PREPEND ${PROJECT_BINARY_DIR}/tools/ OUTPUT_VARIABLE tool_links)
  install(FILES ${tool_links} DESTINATION ${CMAKE_INSTALL_BINDIR})  # Links to penstock beside them.
  if(NOT SKBUILD)  # A wheel has none of them.
    install(PROGRAMS scripts/prove-direct scripts/capture-machine scripts/machine-tree
            DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock)
  endif()
  if(PENSTOCK_MANUAL AND NOT SKBUILD)  # A wheel has neither.
    include(cmake/manual.cmake)
  endif()
endif()

# Both files find their prefix from where they lie, so an installed tree can be moved.
function(penstock_install_pkgconfig name library_folder header_folder)
  set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  cmake_path(IS_ABSOLUTE CMAKE_INSTALL_LIBDIR libdir_is_absolute)
  if(libdir_is_absolute)
    set(PREFIX_FROM_PCFILE ${CMAKE_INSTALL_PREFIX})
  else()
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}
               OUTPUT_VARIABLE up)
    set(PREFIX_FROM_PCFILE "\${pcfiledir}/${up}")
  endif()
  cmake_path(APPEND libdir "\${prefix}" ${library_folder})
  cmake_path(APPEND includedir "\${prefix}" ${header_folder})
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${pkgconfig_dir})
endfunction()

if(TARGET penstock_shared AND TARGET cufile)
  set_target_properties(penstock_shared PROPERTIES EXPORT_NAME penstock)
  install(TARGETS penstock_shared EXPORT penstockTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(TARGETS cufile EXPORT penstockTargets
          LIBRARY DESTINATION ${PENSTOCK_CUFILE_LIBDIR}
          INCLUDES DESTINATION ${PENSTOCK_CUFILE_INCLUDEDIR})
  install(FILES include/cufile.h DESTINATION ${PENSTOCK_CUFILE_INCLUDEDIR})
  penstock_install_pkgconfig(penstock ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR})
  penstock_install_pkgconfig(cufile ${PENSTOCK_CUFILE_LIBDIR} ${PENSTOCK_CUFILE_INCLUDEDIR})

  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
  install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${package_dir})
  configure_package_config_file(cmake/penstockConfig.cmake.in penstockConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/penstockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/penstockConfigVersion.cmake
          DESTINATION ${package_dir})
endif()

if(TARGET penstock_shared AND TARGET cufile)
  install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN build EXCLUDE)
endif()

# What of others is in the files, and the licences' texts: beside the Python package in a wheel, else in share/doc.
if(PENSTOCK_LINKED)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
  set(linked_dir ${CMAKE_INSTALL_DATADIR}/doc/penstock)
  if(SKBUILD)
    set(linked_dir penstock)
    set(linked_component COMPONENT python)
  endif()
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${linked_dir}\")
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND ${Python_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/packaging/linked ${PROJECT_BINARY_DIR}
                            --texts \"\${folder}/linked.txt\"
                    OUTPUT_FILE \"\${folder}/linked.json\" COMMAND_ERROR_IS_FATAL ANY)" ${linked_component})
endif()
