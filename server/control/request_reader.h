// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collects the bytes of one HTTP request until they are whole, so that a slow client occupies no
/// thread. It finds the request's end only; cpp-httplib parses the bytes.
///
/// Bounds:  Keeps at most kRequestBytesMax.
/// Threads: One at a time.
/// Tests:   tests/server/control/request_reader_test.cc
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tributary::control {

/// Most bytes that the server reads from a connection.
inline constexpr size_t kRequestBytesMax = 65'536;
/// Longest body of a request. A job with all its keys needs a tenth.
inline constexpr size_t kBodyBytesMax = 8192;

class RequestReader {
 public:
  /// Appends bytes of the connection.
  /// @param bytes At most room().
  /// @return whether the request can be answered: it is whole, or too large, or it has a body that
  ///         the server refuses without reading it.
  bool add(std::string_view bytes);
  /// Returns how many bytes may still come.
  [[nodiscard]] size_t room() const { return kRequestBytesMax - bytes_.size(); }
  [[nodiscard]] bool is_empty() const { return bytes_.empty(); }
  /// Returns true once, if the client sends its body only after "100 Continue".
  [[nodiscard]] bool take_expectation() { return std::exchange(expects_continue_, false); }
  /// Returns the bytes and keeps none.
  [[nodiscard]] std::string take() { return std::exchange(bytes_, {}); }

 private:
  void read_head(size_t head_bytes);

  std::string bytes_;
  size_t wanted_bytes_ = 0;  ///< Bytes of head and body; 0: the head has not ended.
  bool expects_continue_ = false;
};

}  // namespace tributary::control
