// SPDX-License-Identifier: Apache-2.0
#include "host/trio_ml/congestion_window.h"

#include <algorithm>

#include "base/assert.h"

namespace tributary::host {

CongestionWindow::CongestionWindow(CongestionControl control, uint32_t packets_start,
                                   uint32_t packets_max)
    : control_(control), max_(packets_max), window_(packets_start), threshold_(packets_max) {
  TRIB_ASSERT(control != CongestionControl::kNone);
  TRIB_ASSERT(packets_start >= 1 && packets_start <= packets_max);
  begin_round();
}

void CongestionWindow::on_result(bool marked) {
  round_results_++;
  if (marked) {
    round_marks_++;
    cut(control_ == CongestionControl::kDctcp ? alpha_ / 2 : 0.5);
  } else if (!was_cut_) {
    window_ = std::min(window_ + (window_ < threshold_ ? 1 : 1 / window_), max_);
  }
  if (round_results_ >= round_length_) begin_round();
}

void CongestionWindow::on_loss() { cut(0.5); }

void CongestionWindow::cut(double share) {
  if (was_cut_) return;
  was_cut_ = true;
  window_ = std::max(window_ * (1 - share), 1.0);
  threshold_ = window_;
}

void CongestionWindow::begin_round() {
  if (control_ == CongestionControl::kDctcp && round_results_ > 0) {
    const double marked = static_cast<double>(round_marks_) / round_results_;
    alpha_ = (1 - kGain) * alpha_ + kGain * marked;
  }
  round_length_ = packets();
  round_results_ = 0;
  round_marks_ = 0;
  was_cut_ = false;
}

}  // namespace tributary::host
