# SPDX-License-Identifier: Apache-2.0

# What makes a slip in memory end the program rather than serve somebody: for everything that is built here, but for
# sanitizers, which look closer themselves. test/install/check_elf.py reads back what came of it.
include(CheckCompilerFlag)
include(CheckPIESupported)
check_pie_supported()  # So that programs are linked position-independent, too.

if(NOT PENSTOCK_SANITIZE)
  # Libraries are bound when they are loaded, and the table of them is read-only from then on.
  add_link_options(LINKER:-z,relro LINKER:-z,now)
  add_compile_options(-fstack-protector-strong)
  # Needs optimisation. Some distributions define it already, perhaps to another value.
  add_compile_options("$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
  # Fit for shadow stacks, which costs no instruction. Marking the targets of jumps costs a request 3 %, for what Linux
  # offers to no program so far.
  check_compiler_flag(CXX -fcf-protection=return PENSTOCK_HAS_CF_PROTECTION)
  if(PENSTOCK_HAS_CF_PROTECTION)
    add_compile_options(-fcf-protection=return)
  endif()
endif()

# For what every request passes through: stacks are guarded in functions that have arrays of bytes. To guard every
# function that takes the address of something costs a request 5 %.
function(penstock_guard_arrays_only target)
  if(NOT PENSTOCK_SANITIZE)
    target_compile_options(${target} PRIVATE -fstack-protector)
  endif()
endfunction()
