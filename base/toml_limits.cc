// SPDX-License-Identifier: Apache-2.0
#include "base/toml_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace tributary {
namespace {

constexpr size_t kDelimiterBytes = 3;  ///< Length of """ and of '''.
/// Most quotes that end a multi-line string: two of its own and the delimiter. Source: TOML 1.0.
constexpr size_t kEndQuotesMax = 5;

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Result<void> scan() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      at_++;
      if (c == '.') dots_++;
      if (c == '\n') line_++;
      if (c == '[' || c == '{') brackets_++;
      if ((c == ']' || c == '}') && brackets_ > 0) brackets_--;
      // None of these can stand within a key.
      if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) dots_ = 0;
      if (dots_ >= kTomlPartsMax) return refusal("a key has more parts", kTomlPartsMax);
      if (brackets_ > kTomlBracketsMax) {
        return refusal("more brackets are open", kTomlBracketsMax);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] Result<void> refusal(std::string_view what, uint32_t allowed) const {
    return failure(fmt::format("{}:{}: {} than allowed; allowed: {}", path_, line_, what, allowed));
  }

  /// Returns the number of quotes `quote` from here on.
  [[nodiscard]] size_t quotes_here(char quote) const {
    return std::min(text_.find_first_not_of(quote, at_), text_.size()) - at_;
  }

  /// Moves behind the string that begins here. A string of one line ends with its line at the
  /// latest.
  void skip_string(char quote) {
    const bool is_long = quotes_here(quote) >= kDelimiterBytes;
    at_ += is_long ? kDelimiterBytes : 1;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == quote) {
        const size_t quotes = is_long ? quotes_here(quote) : 1;
        at_ += std::min(quotes, kEndQuotesMax);
        if (!is_long || quotes >= kDelimiterBytes) return;
        continue;
      }
      if (c == '\n') {
        if (!is_long) return;
        line_++;
      }
      // The character after a backslash is a part of the string, unless it ends the line.
      const bool is_escape = c == '\\' && quote == '"' && at_ + 1 < text_.size();
      at_ += is_escape && text_[at_ + 1] != '\n' ? 2 : 1;
    }
  }

  const std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  uint64_t line_ = 1;
  uint32_t dots_ = 0;  ///< Since the last character that cannot stand within a key.
  uint32_t brackets_ = 0;
};

}  // namespace

Result<void> check_toml_limits(std::string_view text, const std::string& path) {
  return Scanner(text, path).scan();
}

}  // namespace tributary
