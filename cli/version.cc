// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

namespace tributary::cli {

std::string_view program_version() { return TRIBUTARY_VERSION; }

std::string_view program_commit() {
  return
#include "commit.inc"
      ;
}

}  // namespace tributary::cli
