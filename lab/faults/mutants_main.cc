// SPDX-License-Identifier: Apache-2.0
// The program `tributary-mutants`: the fault campaign over sources with planted bugs
// (base/mutant.h). One of them is active. `tributary lab faults --mutants` runs it once for each
// mutant.
//
//   tributary-mutants MUTANT FIRST_SEED SEEDS
//
// Prints "caught SEEDS HOW" for the first run that breaks a promise, or "missed SEEDS".
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/mutant.h"
#include "lab/faults/fault_run.h"

namespace tributary::lab {
namespace {

int run(const MutantText& mutant, uint64_t first_seed, uint64_t seeds) {
  chosen_mutant = mutant.mutant;
  using Runs = MutantText::Runs;
  const bool switchml = mutant.runs == Runs::kSwitchml;
  const PlanShape shape{.protocol = switchml ? wire::Protocol::kSwitchml : wire::Protocol::kTrioMl,
                        .attackers = mutant.runs == Runs::kTrioMl,
                        .sharded = mutant.runs == Runs::kSharded};
  for (uint64_t i = 0; i < seeds; i++) {
    const FaultResult result = run_faults(draw_plan(first_seed + i, FaultKinds::all(), shape));
    for (const auto& lines : result.breaches) {
      if (lines.empty()) continue;
      fmt::print("caught {} {}\n", i + 1, lines.front());
      return 0;
    }
  }
  fmt::print("missed {}\n", seeds);
  return 0;
}

}  // namespace
}  // namespace tributary::lab

int main(int argc, char** argv) {
  constexpr int kUsageError = 2;
  if (argc == 4) {
    for (const tributary::MutantText& text : tributary::kMutants) {
      if (std::string_view(argv[1]) != text.name) continue;
      return tributary::lab::run(text, std::strtoull(argv[2], nullptr, 10),
                                 std::strtoull(argv[3], nullptr, 10));
    }
  }
  fmt::print(stderr, "usage: tributary-mutants MUTANT FIRST_SEED SEEDS; mutants:\n");
  for (const tributary::MutantText& text : tributary::kMutants) {
    fmt::print(stderr, "  {:<24} {}\n", text.name, text.bug);
  }
  return kUsageError;
}
