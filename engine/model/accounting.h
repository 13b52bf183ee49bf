// SPDX-License-Identifier: Apache-2.0
/// @file
/// The measured accounting of a program on a modelled PFE: the budget and the use of each
/// instruction, the totals, and the places where the program runs code without a price.
///
/// Threads: Plain data.
/// Tests:   tests/engine/model/accounting_test.cc
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/model/pfe.h"
#include "microcode/access_meter.h"

namespace tributary::engine {

struct Accounting {
  std::string program;
  // As in engine::Report.
  uint32_t program_instructions = 0;
  double instructions_per_packet = 0;
  double instructions_per_gradient = 0;  ///< 0: no gradient was added.
  std::vector<microcode::AccessMeter::InstructionRow> instructions;
  std::vector<microcode::AccessMeter::UnpricedRow> unpriced;
};

/// Returns the accounting of a PFE since its start.
[[nodiscard]] Accounting accounting_of(const PfeCore& pfe);

/// Returns the totals, a table of the instructions, and unpriced_text().
[[nodiscard]] std::string accounting_text(const Accounting& accounting);
/// Returns a table of the places without a price, or a line that says that there are none.
[[nodiscard]] std::string unpriced_text(const Accounting& accounting);
/// Return an object: the whole accounting, or the program and the places without a price.
[[nodiscard]] nlohmann::ordered_json accounting_json(const Accounting& accounting);
[[nodiscard]] nlohmann::ordered_json unpriced_json(const Accounting& accounting);

}  // namespace tributary::engine
