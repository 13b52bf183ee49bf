// SPDX-License-Identifier: Apache-2.0
/// @file
/// A plot of the shares of blocks beside a plot of times: a short time may be one of sums that lack
/// a worker.
///
/// Errors:  None.
/// Threads: None.
/// Tests:   tests/lab/figures/repetition_test.cc
#pragma once

#include <string>

#include "lab/report/figure_row.h"
#include "lab/report/svg_plot.h"

namespace tributary::lab {

class SharePlot {
 public:
  SharePlot(std::string title, std::string x_label);

  /// Adds the shares of a system at `x`.
  void add(const std::string& system, double x, const BlockShares& shares);
  /// Returns the plot, without lines that are zero everywhere.
  [[nodiscard]] LinePlot plot() const;

 private:
  void add_point(std::string name, double x, double share);

  LinePlot plot_;
};

}  // namespace tributary::lab
