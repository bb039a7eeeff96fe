// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_reasons.h"

namespace penstock::core {
namespace {

constexpr ReasonText kTexts[] = {
    {"vendor_library_missing", "NVIDIA's libcufile.so.0 cannot be found",
     "install libcufile of the CUDA toolkit, or name the file by its absolute path in PENSTOCK_VENDOR_LIBRARY"},
    {"vendor_is_ourselves", "the file that should be NVIDIA's library is Penstock's own",
     "name NVIDIA's libcufile.so.0 by its absolute path in PENSTOCK_VENDOR_LIBRARY"},
    {"vendor_incomplete", "NVIDIA's library could not be loaded, or lacks a call that is needed",
     "install libcufile of CUDA 11.4 or later, with the packages it depends on"},
    {"nvidia_fs_missing", "the module nvidia-fs is not loaded, or no storage driver has registered with it",
     "load it (modprobe nvidia-fs), unless 'penstock check' says that it crashes this kernel, and use a storage driver "
     "made for it, from MLNX_OFED or Ubuntu's nvidia kernel"},
    {"vendor_refused", "NVIDIA's library refused to open, or refused this file",
     "see docs/reference/direct.md for its error numbers, and its own cufile.log for the cause"},
    {"vendor_not_direct", "NVIDIA's library has the CPU move the bytes here, in its compatibility mode",
     "see its cufile.log for the cause; where nvidia-fs counts nothing, set its parameter rw_stats_enabled to 1"},
    {"vendor_off", "NVIDIA's library is switched off by configuration", "unset PENSTOCK_VENDOR"},
    {"vendor_gpu", "NVIDIA supports GPUDirect on data centre and professional GPUs, and on no GeForce",
     "use a data centre or professional GPU for direct paths; the others serve this one"},
};

}  // namespace

ReasonRange vendor_reasons() { return {kFirstVendorReason, kTexts}; }

}  // namespace penstock::core
