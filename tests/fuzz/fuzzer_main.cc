// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry points for the one target of this program:
//
//   fuzz_TARGET --write-seeds=FOLDER     writes the target's seeds into FOLDER, and ends
//   fuzz_TARGET [libFuzzer's arguments]  fuzzes, or runs the given files
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/assert.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using tributary::fuzz::Target;

const Target& the_target() {
  const auto all = tributary::fuzz::targets();
  TRIB_ASSERT(all.size() == 1);
  return all[0];
}

/// Ends the process at the first check that fails, which libFuzzer counts as a crash.
class StopAtFailure final : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) std::abort();  // GoogleTest's own listener has printed it.
  }
};

void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  uint32_t number = 0;
  for (const auto& seed : the_target().seeds()) {
    std::ofstream file(folder / fmt::format("seed-{:02}", number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) {
      fmt::print(stderr, "cannot write seeds to {}\n", folder.string());
      std::exit(1);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(const int* count, char*** arguments) {
  constexpr std::string_view kWriteSeeds = "--write-seeds=";
  for (int i = 1; i < *count; i++) {
    const std::string_view argument = (*arguments)[i];
    if (!argument.starts_with(kWriteSeeds)) continue;
    write_seeds(argument.substr(kWriteSeeds.size()));
    std::exit(0);
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(new StopAtFailure);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  the_target().run({data, size});
  return 0;
}
