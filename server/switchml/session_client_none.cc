// SPDX-License-Identifier: Apache-2.0
// Built where gRPC is not installed.
#include "server/switchml/session_client.h"

namespace tributary::server {

Result<Endpoint> join_session(const SessionRequest&) {
  return failure(
      "--control: this program was built without gRPC; run tools/install-deps.sh --with-grpc and "
      "build again, or give the server its --session and the worker only --server");
}

}  // namespace tributary::server
