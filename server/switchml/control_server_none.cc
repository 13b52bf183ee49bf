// SPDX-License-Identifier: Apache-2.0
// Built where gRPC is not installed.
#include "server/switchml/control_server.h"

namespace tributary::server {

bool ControlServer::available() { return false; }

Result<std::unique_ptr<ControlServer>> ControlServer::start(const ControlConfig&, SessionDesk&) {
  return failure(
      "--control: this program was built without gRPC; run tools/install-deps.sh --with-grpc and "
      "build again, or give the sessions as --session workers=ADDRESS+ADDRESS");
}

}  // namespace tributary::server
