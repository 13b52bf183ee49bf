// SPDX-License-Identifier: Apache-2.0
#include "host/all_reduce.h"

namespace tributary::host {

const char* to_string(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kOverflow:
      return "overflow";
    case Status::kNotFinite:
      return "not_finite";
    case Status::kPeerMissing:
      return "peer_missing";
    case Status::kPeerLeft:
      return "peer_left";
    case Status::kAggregatorGone:
      return "aggregator_gone";
    case Status::kSessionLost:
      return "session_lost";
    case Status::kDesynchronised:
      return "desynchronised";
    case Status::kMismatch:
      return "mismatch";
    case Status::kRefused:
      return "refused";
    case Status::kClosed:
      return "closed";
  }
  return "unknown";
}

}  // namespace tributary::host
