// SPDX-License-Identifier: Apache-2.0
/// @file
/// The packet generators of a Tofino: they create packets at set times.
///
/// Model:   Each pipe has one, on its second inner loop. An application sends `batches` x `packets`
///          packets once per period, one after the other at the port's rate. A packet starts with
///          six bytes: 3 bits 0, pipe (2), application (3), 8 bits 0, batch (16), packet (16).
/// Limits:  Eight applications per pipe share a buffer of 16 KB. Numbers have 16 bits.
/// Source:  TNA p.69–73. Not modelled: other triggers (once, port down, a recirculated packet), and
///          contention for the port among applications and recirculated packets.
/// Errors:  set() refuses a configuration that the chip cannot do, or not within the period.
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
  Instant first_at = {};  ///< Start of the first sweep; later ones follow by `period`.
  Duration period = {};
  uint32_t batches = 1;
  uint32_t packets = 1;    ///< Packets per batch.
  PacketView packet = {};  ///< The packet after the header; copied.
};

/// All generators of a switch.
class PacketGenerators {
 public:
  static constexpr uint32_t kHeaderBytes = 6;

  /// Starts an application or replaces it. @param pipes Number of pipes of the switch.
  [[nodiscard]] Result<void> set(const GeneratorConfig& config, uint32_t pipes);
  /// Stops an application.
  void stop(uint32_t pipe, uint32_t application);

  /// Returns when the next packet reaches the pipe's parser; never() if no application runs.
  [[nodiscard]] Instant next_at() const { return next_at_; }

  struct Packet {
    uint32_t port;
    PacketView view;  ///< Valid until the next call.
  };
  /// Returns the packet of next_at(). If times are equal, the lower application comes first.
  /// @pre next_at() is not never().
  [[nodiscard]] Packet take();

  /// Returns how long a packet of `size_bytes`, including the header, occupies the port.
  [[nodiscard]] static Duration packet_time(uint32_t size_bytes);

 private:
  struct Application {
    GeneratorConfig config;
    std::vector<std::byte> bytes;  ///< Header and packet.
    uint32_t size_bytes = 0;
    Instant sweep_at;
    uint32_t sent = 0;  ///< Packets of this sweep so far.
    [[nodiscard]] Instant next_at() const {
      return sweep_at + packet_time(size_bytes) * (int64_t{sent} + 1);
    }
  };
  void find_next();

  std::vector<Application> applications_;
  size_t next_ = 0;  ///< Index of the application that sends next.
  Instant next_at_ = Instant::never();
};

}  // namespace tributary::tofino
