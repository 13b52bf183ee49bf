// SPDX-License-Identifier: Apache-2.0
/// @file
/// One source of a Trio-ML job, written only from the Trio paper's Figures 7 and 8. It uses no
/// header of this project and packs bytes by hand. If it fails, the wire format has changed.
///
/// Figure 8, most significant bit first, on UDP port 12000 (Figure 7); gradients of 32 bits follow:
///
///   job_id 8 | block_id 32 | age_op 4 | final 1 | degraded 1 | unused 2 | src_id 8 | src_cnt 8 |
///   gen_id 16 | unused 4 | grad_cnt 12
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace paper {

using Bytes = std::vector<uint8_t>;
using Gradients = std::vector<int32_t>;

struct Header {
  uint8_t job_id = 0;
  uint32_t block_id = 0;
  uint8_t age_op = 0;
  bool final = false;
  bool degraded = false;
  uint8_t src_id = 0;
  uint8_t src_cnt = 0;
  uint16_t gen_id = 0;
  uint16_t grad_cnt = 0;
};
inline constexpr uint32_t kHeaderBytes = 12;

Bytes packed(const Header& header, const Gradients& gradients);

struct Packet {
  Header header;
  Gradients gradients;
};
/// Returns nothing if the bytes are not a whole packet.
std::optional<Packet> unpacked(const Bytes& bytes);

/// A socket connected to the aggregator.
class Source {
 public:
  /// @param server_address In host order, for example 0x7f000001 for 127.0.0.1.
  Source(uint8_t job_id, uint8_t src_id, uint16_t server_port,
         uint32_t server_address = 0x7f000001);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void send(uint32_t block_id, uint16_t gen_id, const Gradients& gradients);
  void send_bytes(const Bytes& bytes);
  /// Returns the packet for a block without sending it.
  [[nodiscard]] Bytes contribution(uint32_t block_id, uint16_t gen_id,
                                   const Gradients& gradients) const;
  /// Returns the next packet, or nothing if none arrives before the deadline.
  std::optional<Packet> receive(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] int file() const { return socket_; }

 private:
  const uint8_t job_id_;
  const uint8_t src_id_;
  int socket_;
};

}  // namespace paper
