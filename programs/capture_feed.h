// SPDX-License-Identifier: Apache-2.0
/// @file
/// The input of a run over a capture: frames in the order of the file, with times that never
/// decrease. It is the only input of both machines, so both see the same packets.
///
/// Model:   A frame that the capture has cut is filled up with zeros to its size on the wire,
///          unless the program needs a header that is cut: see HeadersCut.
/// Units:   Instant 0 is the time of the first packet.
/// Threads: One.
/// Errors:  problem() names a damaged file, or a time before 1970, after kTimeMaxNs, or more than
///          kSpanMax after the first; the feed ends there.
/// Memory:  One packet.
/// Tests:   tests/programs/capture_feed_test.cc
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "io/capture/capture_reader.h"

namespace tributary::programs {

/// Longest time from a capture's first packet to its last. Assumed: longer than anybody captures.
inline constexpr Duration kSpanMax = seconds(30 * 86'400);

/// Last time of a packet, in nanoseconds since 1970: pcap and IPFIX have 32 bits for the seconds.
inline constexpr int64_t kTimeMaxNs = (int64_t{1} << 32) * 1'000'000'000 - 1;

/// Tells whether a capture has cut a header that a program needs.
/// @param held       The captured bytes of a frame. @param wire_bytes Its size on the wire.
using HeadersCut = bool (*)(std::span<const std::byte> held, uint32_t wire_bytes);

/// In a gap between packets, timer threads stop after this time, until the next packet. By then
/// they have ended every record that can time out. Source: twice guard's longest timeout.
inline constexpr Duration kGapMax = seconds(4 * 3600);

/// One packet for a program.
struct FedPacket {
  Instant at;
  /// As long as on the wire; if a header is cut, as in the file. Valid until the next next().
  std::span<const std::byte> bytes;
  io::CapturedPacket captured;  ///< As in the file.

  [[nodiscard]] uint32_t filled_bytes() const {
    return static_cast<uint32_t>(bytes.size() - captured.bytes.size());
  }
  /// Returns the number of bytes that were on the wire and are not in `bytes`.
  [[nodiscard]] uint32_t missing_bytes() const {
    return captured.wire_bytes - static_cast<uint32_t>(bytes.size());
  }
};

class CaptureFeed {
 public:
  /// Counts the packets of the file so far.
  struct Counts {
    uint64_t packets = 0;
    uint64_t bytes = 0;         ///< On the wire.
    uint64_t cut = 0;           ///< The file does not hold all of their bytes.
    uint64_t headers_cut = 0;   ///< Cut packets that lack bytes of a header.
    uint64_t too_long = 0;      ///< Longer than the machine's packets: not fed.
    uint64_t out_of_order = 0;  ///< Earlier than their predecessor: fed at the predecessor's time.
  };

  /// @param reader           None: a file without packets.
  /// @param packet_bytes_max Longer packets are counted and left out.
  /// @param stop             The file ends when it becomes true, also in a read that a signal has
  ///                         interrupted; null: never.
  /// @param headers_cut      A packet for which it returns true is not filled up; null: none.
  CaptureFeed(std::optional<io::CaptureReader> reader, uint32_t packet_bytes_max,
              const std::atomic<bool>* stop = nullptr, HeadersCut headers_cut = nullptr)
      : reader_(std::move(reader)),
        packet_bytes_max_(packet_bytes_max),
        stop_(stop),
        headers_cut_(headers_cut) {}

  /// The observer sees each packet that next() returns. Set it before the first call.
  void observe(std::function<void(const io::CapturedPacket& packet)> observer) {
    observer_ = std::move(observer);
  }

  /// Returns the next packet, or null at the end.
  [[nodiscard]] const FedPacket* next();

  /// Returns whether the flag that ends the file is set.
  [[nodiscard]] bool is_stopped() const { return stop_ != nullptr && stop_->load(); }
  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Returns the time of Instant 0. @pre a packet has been read; before that, the epoch of 1970.
  [[nodiscard]] io::CaptureTime time_zero() const { return first_at_.value_or(io::CaptureTime()); }
  /// Returns the time of the last packet.
  [[nodiscard]] Instant last_at() const { return fed_.at; }
  /// Reads the file's first packet, so that time_zero() is known before a program starts.
  void read_ahead();

 private:
  [[nodiscard]] bool read();
  [[nodiscard]] bool place_in_time();
  void fill_up();

  std::optional<io::CaptureReader> reader_;
  const uint32_t packet_bytes_max_;
  const std::atomic<bool>* stop_;
  const HeadersCut headers_cut_;
  FedPacket fed_;
  std::vector<std::byte> filled_;  ///< A cut packet with its zeros.
  std::optional<io::CaptureTime> first_at_;
  bool is_ahead_ = false;  ///< fed_ holds a packet that next() has not returned.
  std::function<void(const io::CapturedPacket&)> observer_;
  std::optional<Error> problem_;
  Counts counts_;
};

}  // namespace tributary::programs
