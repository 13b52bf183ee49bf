// SPDX-License-Identifier: Apache-2.0
// A TOML file and its keys.
#include "base/toml_file.h"
#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

void run(std::span<const uint8_t> input) {
  const InputFile file(input);
  const auto table = parse_toml_file(file.path(), file.path());
  if (!table) {
    EXPECT_LE(table.error().text.size(), error_bytes_max(input.size()));
    return;
  }
  for (const WrittenKey& key : keys_of(*table, file.path())) {
    EXPECT_FALSE(key.where.empty());
  }
}

std::vector<Bytes> seeds() {
  return {input_of_text("window = 64\nname = \"a\"\nrate = 1.5e3\non = true\n"),
          input_of_text("[link]\nrate_gbps = 100\nlist = [1, \"two\", 3.0]\nday = 2024-01-02\n"),
          input_of_text("[[job]]\nid = 1\n[[job]]\nid = 2\nnested = {a = {b = [[1], [2]]}}\n"),
          input_of_text("text = '''\nlines\n'''\nhex = 0xff\n'quoted key'.b = -1\n")};
}

TRIB_FUZZ_TARGET(toml);

}  // namespace
}  // namespace tributary::fuzz
