// SPDX-License-Identifier: Apache-2.0

#include "tools/kv/library.h"

namespace penstock::tools {

kv::Library own_library() {
  return {penstock_file_register, penstock_file_deregister, penstock_file_sync,
          penstock_transfer,      penstock_queue_open,      penstock_queue_close,
          penstock_queue_submit,  penstock_queue_reap,      penstock_crc32c_vector};
}

Status status_of(const core::Status& status) {
  return penstock_status{static_cast<std::int16_t>(status.domain), status.driver, status.code, status.step};
}

Session open_host_session() {
  SessionSettings choice;
  choice.device = "host";
  return open_session(choice);
}

}  // namespace penstock::tools
