// SPDX-License-Identifier: Apache-2.0
#include "cli/version.h"

#include <fmt/format.h>

#include "build_facts.inc"

namespace tributary::cli {

std::string_view program_version() { return TRIBUTARY_VERSION; }

std::string_view program_commit() {
  return
#include "commit.inc"
      ;
}

std::string version_text() {
  return fmt::format("tributary {}\ncommit: {}\ncompiler: {}\nflags: {}\nfeatures: {}",
                     program_version(), program_commit(), kBuildCompiler, kBuildFlags,
                     kBuildFeatures);
}

}  // namespace tributary::cli
