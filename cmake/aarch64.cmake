# SPDX-License-Identifier: Apache-2.0

# Builds for 64-bit Arm with Debian's cross compiler; what is built runs by emulation. `./dev arm` uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
# Programs know where the C library lies, but for those that are made for other machines. To tell the emulator instead,
# by its -L, would put that folder in the place of the root directory.
if(NOT PENSTOCK_PORTABLE)
  set(root /usr/aarch64-linux-gnu/lib)
  set(CMAKE_EXE_LINKER_FLAGS_INIT
      "-Wl,--dynamic-linker=${root}/ld-linux-aarch64.so.1 -Wl,-rpath,${root} -Wl,--disable-new-dtags")
endif()
