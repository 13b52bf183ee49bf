// SPDX-License-Identifier: Apache-2.0
/// @file
/// The tokens of the control API over TCP, and the file that holds them.
///
/// Model:   A line of the file is TOKEN [read|write] [LAST_DAY]. A token may read, unless its line
///          says `write`. LAST_DAY, as 2027-01-31, is the last day (UTC) on which it is valid; or
///          2027-01-31T12:00:00Z is the moment of its end. "#" begins a comment.
///          The file is read again as soon as it has changed. If it is then wrong, its earlier
///          tokens stay.
/// Bounds:  A comparison takes as long for any token. Only hashes of tokens are kept.
/// Threads: Any.
/// Errors:  One line with the file and the line's number; never a token.
/// Tests:   tests/server/control/tokens_test.cc
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/keys.h"
#include "base/result.h"

namespace tributary::control {

/// Most tokens of a file. Assumed: one for each person and program that asks.
inline constexpr uint32_t kTokensMax = 64;
/// Most bytes of the file.
inline constexpr size_t kTokenFileBytesMax = 65'536;

struct Token {
  auth::Key256 key{};  ///< auth::key_of_secret() of it.
  bool may_write = false;
  std::optional<std::chrono::sys_seconds> ends_at{};  ///< Not set: never.

  [[nodiscard]] bool has_expired(std::chrono::sys_seconds now) const {
    return ends_at && now >= *ends_at;
  }
};
using Tokens = std::vector<Token>;

/// Reads the lines of a token file. Refuses a file without a token.
[[nodiscard]] Result<Tokens> parse_tokens(std::string_view text);

/// Finds a token. @return null: there is none.
[[nodiscard]] const Token* find_token(const Tokens& tokens, const std::string& token);

class TokenFile {
 public:
  /// Called after each further reading: with the error, or with nothing.
  using OnRead = std::function<void(const std::optional<Error>& error)>;

  /// Reads the file. @param what Name of the setting, which begins each error.
  /// @param group_may_read See auth::read_private_file().
  static Result<std::unique_ptr<TokenFile>> open(std::string what, std::string path, OnRead on_read,
                                                 bool group_may_read = false);

  /// Returns the tokens. Reads the file before if it has changed.
  [[nodiscard]] std::shared_ptr<const Tokens> tokens();
  /// Reads the file even if it does not look changed.
  void read_again();

 private:
  /// The properties of the file that change when it is written.
  struct Stamp {
    int64_t seconds = 0;
    int64_t nanoseconds = 0;
    uint64_t inode = 0;
    int64_t size = 0;
    bool operator==(const Stamp&) const = default;
  };

  TokenFile(std::string what, std::string path, OnRead on_read, bool group_may_read)
      : what_(std::move(what)),
        path_(std::move(path)),
        on_read_(std::move(on_read)),
        group_may_read_(group_may_read) {}
  [[nodiscard]] Stamp stamp() const;
  [[nodiscard]] Result<Tokens> read() const;
  /// @pre mutex_ is locked.
  void take(Stamp stamp);

  const std::string what_;
  const std::string path_;
  const OnRead on_read_;
  const bool group_may_read_;
  std::mutex mutex_;  ///< Guards stamp_ and tokens_.
  Stamp stamp_;
  std::shared_ptr<const Tokens> tokens_;
};

}  // namespace tributary::control
