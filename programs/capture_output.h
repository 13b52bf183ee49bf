// SPDX-License-Identifier: Apache-2.0
/// @file
/// The output of a run over a capture: the packets that a program forwards, and the messages that
/// it makes.
///
/// Threads: One.
/// Errors:  A failed write ends the file, but not the messages, and a failed message does not end
///          the file. problem() keeps the first failure.
/// Tests:   tests/programs/program_test.cc
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "base/result.h"
#include "io/capture/capture_writer.h"

namespace tributary::programs {

class CaptureOutput {
 public:
  /// Receives each message that a program has made, a UDP payload, even after a failure.
  using MessageHandler = std::function<Result<void>(std::span<const std::byte> message)>;

  struct Counts {
    uint64_t forwarded = 0;
    uint64_t forwarded_bytes = 0;  ///< On the wire.
    uint64_t messages = 0;
  };

  /// Sees each forwarded packet.
  using Observer = std::function<void(const io::CapturedPacket& packet)>;

  /// @param writer   Receives the forwarded packets; none: they are only counted.
  /// @param handler  Receives the messages; none: they are only counted.
  CaptureOutput(std::optional<io::CaptureWriter> writer, MessageHandler handler, Observer observer)
      : writer_(std::move(writer)), handler_(std::move(handler)), observer_(std::move(observer)) {}

  /// Takes a packet that the program forwards.
  /// @param fed           As the program has left it.
  /// @param filled_bytes  Bytes at its end that the input's capture does not hold, nor will the
  ///                      output's.
  /// @param missing_bytes Bytes on the wire that the program did not get.
  void forward(io::CaptureTime at, std::span<const std::byte> fed, uint32_t filled_bytes,
               uint32_t missing_bytes) {
    const size_t held = fed.size() - std::min<size_t>(fed.size(), filled_bytes);
    const io::CapturedPacket packet{at, fed.first(held),
                                    static_cast<uint32_t>(fed.size() + missing_bytes)};
    counts_.forwarded++;
    counts_.forwarded_bytes += packet.wire_bytes;
    if (observer_) observer_(packet);
    if (writer_ && !writer_failed_) writer_failed_ = !keep_problem(writer_->write(packet));
  }
  void message(std::span<const std::byte> message) {
    counts_.messages++;
    if (handler_) keep_problem(handler_(message));
  }
  /// Flushes and closes the file.
  void finish() {
    if (writer_) {
      const auto finished = writer_->finish();
      if (!writer_failed_) keep_problem(finished);
    }
    writer_.reset();
  }

  [[nodiscard]] const std::optional<Error>& problem() const { return problem_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  /// @return whether it was done.
  bool keep_problem(const Result<void>& done) {
    if (!done && !problem_) problem_ = done.error();
    return done.has_value();
  }

  std::optional<io::CaptureWriter> writer_;
  MessageHandler handler_;
  Observer observer_;
  bool writer_failed_ = false;
  std::optional<Error> problem_;  ///< The first failure.
  Counts counts_;
};

}  // namespace tributary::programs
