// SPDX-License-Identifier: Apache-2.0
/// @file
/// Congestion control of a worker: how many packets may be in flight, from ECN marks and losses.
///
/// Model:   The window doubles in each round trip up to a threshold, and grows by one packet in
///          each beyond it. A mark or a loss cuts it, at most once in a round of one window of
///          results.
///            aimd    halves it (ATP §3.7)
///            dctcp   cuts it by alpha/2; alpha follows the share of marked results, by 1/16 of the
///                    difference in each round (A2TP §4.3, RFC 8257). A loss halves it.
/// Units:   Packets. A driver whose packets stand for several counts its own.
/// Threads: Owned by one thread.
/// Tests:   tests/host/trio_ml/congestion_window_test.cc
#pragma once

#include <cstdint>

namespace tributary::host {

enum class CongestionControl : uint8_t { kNone, kAimd, kDctcp };

/// In the order of the enumeration.
inline constexpr const char* kCongestionControlNames[] = {"none", "aimd", "dctcp"};
[[nodiscard]] constexpr const char* name_of(CongestionControl control) {
  return kCongestionControlNames[static_cast<uint32_t>(control)];
}

/// Bytes in flight at the start: the bandwidth-delay product of a rack. Source: ATP §3.7 (200
/// packets of 300 bytes).
inline constexpr uint32_t kCongestionStartBytes = 60'000;

class CongestionWindow {
 public:
  /// Share of a new sample in alpha. Source: A2TP §4.3.1, RFC 8257 §4.2.
  static constexpr double kGain = 1.0 / 16;

  /// @param control       Not kNone.
  /// @param packets_start Window at the start, at least 1.
  /// @param packets_max   Upper bound, at least packets_start.
  CongestionWindow(CongestionControl control, uint32_t packets_start, uint32_t packets_max);

  /// Records a result. @param marked Whether it, or a contribution to it, met a full queue.
  void on_result(bool marked);
  /// Records that a packet was lost.
  void on_loss();

  /// Returns the packets that may be in flight, at least 1.
  [[nodiscard]] uint32_t packets() const { return static_cast<uint32_t>(window_); }
  /// Returns the share of marked results, smoothed. Stays 1 with kAimd.
  [[nodiscard]] double alpha() const { return alpha_; }

 private:
  void cut(double share);
  void begin_round();

  const CongestionControl control_;
  const double max_;
  double window_;
  double threshold_;  ///< Below it, each result adds a packet.
  double alpha_ = 1;  ///< RFC 8257 §4.2: 1 until measured.
  uint32_t round_length_ = 1;
  uint32_t round_results_ = 0;
  uint32_t round_marks_ = 0;
  bool was_cut_ = false;  ///< In this round.
};

}  // namespace tributary::host
