// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet generators of a Tofino: packets that nobody has sent, at set times.
///
/// Model:   Each pipe has one, on its second inner loop. An application of it has a period: each
///          time it sends its packet `batches` x `packets` times, one behind the other at the
///          port's rate, with a header of six bytes before it that says which one it is.
/// Shapes:  The header: 3 bits 0, pipe (2), application (3); 8 bits 0; batch (16); packet (16).
/// Limits:  Eight applications a pipe; their packets share a buffer of 16 KB; numbers of 16 bits.
/// Source:  TNA p.69–73. Other triggers (once, port down, a packet that recirculates) are not
///          modelled, nor that applications of one pipe, and what recirculates through its port,
///          wait for each other.
/// Errors:  What the chip cannot do, or not within the period, is refused at set().
/// Threads: One.
/// Tests:   tests/tofino/pipeline/packet_generator_test.cc
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "tofino/pipeline/parser_route.h"

namespace tributary::tofino {

struct GeneratorConfig {
  uint32_t pipe = 0;
  uint32_t application = 0;
  Instant first_at = {};  ///< Of the first sweep; later ones follow by `period`.
  Duration period = {};
  uint32_t batches = 1;
  uint32_t packets = 1;    ///< In a batch.
  PacketView packet = {};  ///< Behind the header; copied.
};

/// All generators of a switch.
class PacketGenerators {
 public:
  static constexpr uint32_t kHeaderBytes = 6;

  /// Starts an application, or replaces what it did. @param pipes Of the switch.
  [[nodiscard]] Result<void> set(const GeneratorConfig& config, uint32_t pipes);
  /// The application sends no more.
  void stop(uint32_t pipe, uint32_t application);

  /// When the next packet is in the pipe's parser; never() if no application runs.
  [[nodiscard]] Instant next_at() const { return next_at_; }

  struct Packet {
    uint32_t port;
    PacketView view;  ///< Until the next call.
  };
  /// The packet of next_at(), of equal times the lower application's first.
  /// @pre next_at() is not never().
  [[nodiscard]] Packet take();

  /// How long one packet of `size_bytes` (with the header) and a whole sweep occupy the port.
  [[nodiscard]] static Duration packet_time(uint32_t size_bytes);

 private:
  struct Application {
    GeneratorConfig config;
    std::vector<std::byte> bytes;  ///< Header and packet.
    uint32_t size_bytes = 0;
    Instant sweep_at;
    uint32_t sent = 0;  ///< Of this sweep.
    [[nodiscard]] Instant next_at() const {
      return sweep_at + packet_time(size_bytes) * (int64_t{sent} + 1);
    }
  };
  void find_next();

  std::vector<Application> applications_;
  size_t next_ = 0;  ///< Whose turn it is.
  Instant next_at_ = Instant::never();
};

}  // namespace tributary::tofino
