// SPDX-License-Identifier: Apache-2.0
/// @file
/// The measured accounting of the modelled PFEs of a run: the budget and the use of each
/// instruction, and the places where a program runs code without a price.
///
/// Threads: The run's.
/// Errors:  begin() refuses an unknown node, and a run without a modelled PFE.
/// Tests:   tests/lab/inspect/accounting_test.cc
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/model/pfe.h"
#include "lab/run_observer.h"

namespace tributary::lab {

struct NodeAccounting {
  std::string node;
  std::string program;
  uint32_t program_instructions = 0;     ///< As engine::Report.
  double instructions_per_gradient = 0;  ///< As engine::Report; 0: no gradient was added.
  std::vector<microcode::AccessMeter::InstructionRow> instructions;
  std::vector<microcode::AccessMeter::UnpricedRow> unpriced;
};

/// Returns the accounting of a PFE since its start.
[[nodiscard]] NodeAccounting accounting_of(std::string node, const engine::PfeCore& pfe);

/// Collects the accounting of a run's PFEs when the run ends.
class AccountingObserver final : public RunObserver {
 public:
  /// @param node An aggregator; empty: all.
  explicit AccountingObserver(std::string node) : node_(std::move(node)) {}

  Result<void> begin(const RunInside& inside) override;
  bool before_event(Instant) override { return true; }
  void end() override;

  /// Shape [PFEs]; empty before the end.
  [[nodiscard]] const std::vector<NodeAccounting>& nodes() const { return nodes_; }

 private:
  const std::string node_;
  std::vector<std::pair<std::string, const engine::PfeCore*>> pfes_;
  std::vector<NodeAccounting> nodes_;
};

/// Returns a table of the instructions, and unpriced_text().
[[nodiscard]] std::string accounting_text(const NodeAccounting& node);
/// Returns a table of the places without a price, or a line that says that there are none.
[[nodiscard]] std::string unpriced_text(const NodeAccounting& node);
/// Return a list with an object for each node: the whole accounting, or the places without a price.
[[nodiscard]] std::string accounting_json(const std::vector<NodeAccounting>& nodes);
[[nodiscard]] std::string unpriced_json(const std::vector<NodeAccounting>& nodes);

}  // namespace tributary::lab
