// SPDX-License-Identifier: Apache-2.0
/// @file
/// Passes the messages that a program makes on live traffic to a handler that writes files, in a
/// thread of its own.
///
/// Model:   A core appends to a buffer. The thread swaps the buffer with an empty one. The lock is
///          held for a copy of one message or for the swap, never for a write.
/// Threads: push() by any core, all else by the owner. The handler runs in the relay's thread.
/// Errors:  A message that finds no room is lost and counted. After the first error of the handler,
///          all messages are lost; problem() keeps the error.
/// Memory:  Two buffers of `room_bytes`, reserved at the start and touched only as far as used.
/// Tests:   tests/programs/message_relay_test.cc
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/result.h"
#include "programs/capture_output.h"

namespace tributary::programs {

class MessageRelay {
 public:
  /// Source: assumed; the records of some two million flows.
  static constexpr size_t kRoomBytes = size_t{64} << 20;

  explicit MessageRelay(CaptureOutput::MessageHandler handler, size_t room_bytes = kRoomBytes);
  ~MessageRelay() { finish(); }
  MessageRelay(const MessageRelay&) = delete;
  MessageRelay& operator=(const MessageRelay&) = delete;

  /// Copies a message. If there is no room, it loses the message or, after begin_end(), waits.
  void push(std::span<const std::byte> message);
  /// Lets push() wait for room from now on: at the end, a program may send all its records at once.
  void begin_end();
  /// Hands all pushed messages to the handler, then ends the thread. Idempotent.
  void finish();

  [[nodiscard]] uint64_t lost() const;
  [[nodiscard]] std::optional<Error> problem() const;

 private:
  void run(const std::stop_token& stop);
  void pass_on();

  const CaptureOutput::MessageHandler handler_;
  const size_t room_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable_any filled_;  ///< filling_ has a message.
  std::condition_variable_any emptied_;
  std::vector<std::byte> filling_;  ///< Messages, each behind its size in four bytes.
  std::vector<std::byte> taken_;    ///< The messages that the thread hands to the handler.
  bool waits_for_room_ = false;
  uint64_t lost_ = 0;
  std::optional<Error> problem_;
  std::jthread thread_;
};

}  // namespace tributary::programs
