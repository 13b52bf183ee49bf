// SPDX-License-Identifier: Apache-2.0
// A topology file: a generator, lists of nodes, cables and groups.
#include "net/topology_file.h"

#include "tests/fuzz/input_file.h"

namespace tributary::fuzz {
namespace {

/// The digits of a number in these files. Larger networks are allowed, but take long to make.
constexpr size_t kDigitsMax = 3;

bool has_long_number(std::string_view text) {
  size_t digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > kDigitsMax) return true;
  }
  return false;
}

void run(std::span<const uint8_t> input) {
  if (has_long_number(text_of_input(input))) return;
  const InputFile file(input);
  const auto topology = net::read_topology_file(file.path());
  if (!topology) {
    EXPECT_LE(topology.error().text.size(), error_bytes_max(input.size()));
    return;
  }
  EXPECT_FALSE(topology->nodes.empty());
}

std::vector<Bytes> seeds() {
  return {input_of_text("[topology]\nshape = \"leaf-spine\"\nleaves = 2\nworkers_per_leaf = 2\n"
                        "spines = 2\n[uplink]\npropagation_ns = 150\n"),
          input_of_text("[topology]\nshape = \"star\"\nworkers = 3\n[link]\nrate_gbps = 100\n"),
          input_of_text("[[node]]\nname = \"a\"\nkind = \"trio\"\naddress = \"10.1.0.1:120\"\n"
                        "[[node]]\nname = \"b\"\nkind = \"switch\"\n"
                        "[[cable]]\na = \"a.3\"\nb = \"b\"\nrate_gbps = 40\n[cable.back]\n"
                        "loss = 0.01\n"
                        "[[group]]\naddress = \"239.1.1.1:120\"\nreceivers = [\"a\"]\n"
                        "senders = [\"a\"]\n")};
}

TRIB_FUZZ_TARGET(topology_file);

}  // namespace
}  // namespace tributary::fuzz
