// SPDX-License-Identifier: Apache-2.0

// The tool's own library as stores want it (kv/session_drive.h), and their failures as the tool tells them.
#pragma once

#include "kv/session_drive.h"
#include "tools/common/context.h"

namespace penstock::tools {

kv::Library own_library();

Status status_of(const core::Status& status);
// A session for host memory only, without GPUs: bytes that are read are compared and let go.
Session open_host_session();

}  // namespace penstock::tools
