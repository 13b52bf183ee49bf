// SPDX-License-Identifier: Apache-2.0
/// @file
/// The measured accounting (engine/model/accounting.h) of the modelled PFEs of a run.
///
/// Threads: The run's.
/// Errors:  begin() refuses an unknown node, and a run without a modelled PFE.
/// Tests:   tests/lab/inspect/accounting_test.cc
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/model/accounting.h"
#include "lab/run_observer.h"

namespace tributary::lab {

struct NodeAccounting {
  std::string node;
  engine::Accounting measured;
};

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

/// Return the accounting of a node for a terminal: the whole, or the places without a price.
[[nodiscard]] std::string accounting_text(const NodeAccounting& node);
[[nodiscard]] std::string unpriced_text(const NodeAccounting& node);
/// Return a list with an object for each node: the whole accounting, or the places without a price.
[[nodiscard]] std::string accounting_json(const std::vector<NodeAccounting>& nodes);
[[nodiscard]] std::string unpriced_json(const std::vector<NodeAccounting>& nodes);

}  // namespace tributary::lab
