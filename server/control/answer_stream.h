// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads one HTTP answer within limits that the server cannot stretch: a time for the whole answer,
/// and sizes of its head, lines and body. httplib bounds a single read only.
///
/// Model:   AnswerClient gives httplib an AnswerStream in place of its own. httplib reads lines
///          byte by byte and bodies in larger parts, so the stream tells lines by the size of the
///          read.
/// Threads: One.
/// Errors:  AnswerFault names the limit at fault.
/// Tests:   tests/server/control/http_client_test.cc
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tributary::control {

/// Largest head of an answer, and its longest line. Assumed: ten times those of a server behind a
/// proxy. httplib matches the first line with std::regex, which recurses for each byte.
inline constexpr size_t kAnswerHeadBytesMax = 16'384;
inline constexpr size_t kAnswerLineBytesMax = 2048;

struct AnswerLimits {
  std::chrono::seconds within;   ///< From the connection to the last byte.
  std::chrono::seconds silence;  ///< Between two parts.
  size_t body_bytes_max;
};

enum class AnswerFault : uint8_t { kNone, kTimedOut, kHeadTooLarge, kBodyTooLarge };

class AnswerStream final : public httplib::Stream {
 public:
  /// @param socket Stays open until the stream's end. @param fault Set if a limit ends the answer.
  AnswerStream(int socket, const AnswerLimits& limits, const bool& head_ended, AnswerFault& fault)
      : socket_(socket),
        silence_(limits.silence),
        deadline_(std::chrono::steady_clock::now() + limits.within),
        head_ended_(head_ended),
        fault_(fault) {}

  [[nodiscard]] bool is_readable() const override;
  [[nodiscard]] bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return socket_; }

 private:
  /// Waits for an event of poll() until the deadline, or for as long as the silence may last.
  bool wait_for(int16_t event);
  /// Counts bytes of a line. @return false if it, or the head, is too long.
  bool count_line(char byte);

  const int socket_;
  const std::chrono::seconds silence_;
  const std::chrono::steady_clock::time_point deadline_;
  const bool& head_ended_;
  AnswerFault& fault_;
  std::array<char, 65'536> buffer_{};
  size_t begin_ = 0;  ///< Begin of the bytes in buffer_ that read() has not returned.
  size_t end_ = 0;
  size_t line_bytes_ = 0;
  size_t head_bytes_ = 0;
};

/// A client for one request.
class AnswerClient final : public httplib::ClientImpl {
 public:
  AnswerClient(const std::string& host, int port, const AnswerLimits& limits)
      : httplib::ClientImpl(host, port), limits_(limits) {}

  /// Sends the request and reads the answer, with its body.
  [[nodiscard]] httplib::Result exchange(httplib::Request request);
  /// Returns the limit that has ended the last exchange.
  [[nodiscard]] AnswerFault fault() const { return fault_; }

 private:
  bool process_socket(const Socket& socket,
                      std::function<bool(httplib::Stream&)> callback) override;

  const AnswerLimits limits_;
  AnswerFault fault_ = AnswerFault::kNone;
  bool head_ended_ = false;
};

}  // namespace tributary::control
