// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker of the race's plain parameter server: sends its chunks, receives the sums in place.
///
/// Threads: One.
/// Errors:  Values: a server cannot be reached or has closed the connection.
/// Memory:  None besides the caller's tensor.
/// Tests:   tests/bench/race/client/ps_test.cc
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "base/result.h"
#include "bench/race/client/ps_chunks.h"

namespace tributary::race {

class PsClient {
 public:
  /// Connects to the servers (IPv4), given in the same order on all workers, for tensors of this
  /// size.
  static Result<PsClient> connect(const std::vector<Endpoint>& servers, uint64_t tensor_bytes);
  PsClient(PsClient&& other) noexcept = default;
  PsClient& operator=(PsClient&&) = delete;
  ~PsClient();

  /// Replaces the tensor, of connect()'s size, by its sum over all workers.
  Result<void> reduce(std::span<float> tensor);

 private:
  /// Progress in one server's share of the tensor.
  struct Lane {
    int file;
    PsShare share;
    uint64_t sent_chunks = 0;
    uint32_t sent_bytes = 0;  ///< Bytes of the next chunk sent so far.
    uint64_t received_chunks = 0;
    uint32_t received_bytes = 0;

    [[nodiscard]] bool may_send() const {
      return sent_chunks < share.chunks() && sent_chunks - received_chunks < kPsChunksAhead;
    }
    [[nodiscard]] bool done() const { return received_chunks == share.chunks(); }
  };
  PsClient() = default;
  Result<void> connect_lane(const Endpoint& server, const PsShare& share);
  static Result<void> send_some(Lane& lane, std::span<const std::byte> tensor);
  static Result<void> receive_some(Lane& lane, std::span<std::byte> tensor);

  std::vector<Lane> lanes_;
};

}  // namespace tributary::race
