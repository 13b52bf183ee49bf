// SPDX-License-Identifier: Apache-2.0
#include "server/control/tokens.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "auth/private_file.h"
#include "auth/secret.h"
#include "base/number_text.h"

namespace tributary::control {
namespace {

constexpr std::string_view kBlanks = " \t\r";

/// Returns the next word of a line, and removes it from there; empty: there is none.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

/// Reads a number with exactly this many digits from the front of the text.
bool take_number(std::string_view& text, size_t digits, uint32_t& number) {
  if (text.size() < digits) return false;
  const auto written = parse_number<uint32_t>(text.substr(0, digits));
  text.remove_prefix(digits);
  number = written.value_or(0);
  return written.has_value();
}

bool take_letter(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

/// Reads 2027-01-31, whose end is returned, or 2027-01-31T12:00:00Z.
std::optional<std::chrono::sys_seconds> end_of(std::string_view text) {
  uint32_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!take_number(text, 4, year) || !take_letter(text, '-') || !take_number(text, 2, month) ||
      !take_letter(text, '-') || !take_number(text, 2, day)) {
    return {};
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok()) return {};
  const std::chrono::sys_days begin(date);
  if (text.empty()) return begin + std::chrono::days(1);
  const bool is_moment = take_letter(text, 'T') && take_number(text, 2, hour) &&
                         take_letter(text, ':') && take_number(text, 2, minute) &&
                         take_letter(text, ':') && take_number(text, 2, second) &&
                         take_letter(text, 'Z') && text.empty();
  if (!is_moment || hour > 23 || minute > 59 || second > 59) return {};
  return begin + std::chrono::hours(hour) + std::chrono::minutes(minute) +
         std::chrono::seconds(second);
}

Result<Token> parse_line(std::string_view line) {
  Token token;
  const auto key = auth::key_of_secret(take_word(line));
  if (!key) return failure_in("the token is not allowed: ", key.error());
  token.key = *key;
  std::string_view word = take_word(line);
  if (word == "read" || word == "write") {
    token.may_write = word == "write";
    word = take_word(line);
  }
  if (!word.empty()) {
    token.ends_at = end_of(word);
    if (!token.ends_at) {
      // The word may be a part of a token, so it is not repeated.
      return failure(
          "the words after the token are not allowed; allowed: read or write, then an expiry: a "
          "day "
          "such as 2027-01-31 or a time such as 2027-01-31T12:00:00Z");
    }
  }
  if (!take_word(line).empty()) return failure("too many words; allowed: TOKEN RIGHT LAST_DAY");
  return token;
}

}  // namespace

Result<Tokens> parse_tokens(std::string_view text) {
  Tokens tokens;
  for (uint32_t number = 1; !text.empty(); number++) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string_view rest = line;
    const std::string_view first = take_word(rest);
    if (first.empty() || first.starts_with('#')) continue;
    const auto token = parse_line(line);
    if (!token) return failure(fmt::format("line {}: {}", number, token.error().text));
    if (std::ranges::any_of(tokens,
                            [&](const Token& t) { return auth::is_same_key(t.key, token->key); })) {
      return failure(fmt::format("line {}: an earlier line has the same token", number));
    }
    if (tokens.size() == kTokensMax) {
      return failure(fmt::format("line {}: one token too many; allowed: at most {} tokens", number,
                                 kTokensMax));
    }
    tokens.push_back(*token);
  }
  if (tokens.empty()) return failure("it has no token");
  return tokens;
}

const Token* find_token(const Tokens& tokens, const std::string& token) {
  const auto key = auth::key_of_secret(token);
  const Token* found = nullptr;
  if (!key) return found;
  // Without an early end, so that the time tells nothing about the token's place.
  for (const Token& each : tokens) {
    if (auth::is_same_key(each.key, *key)) found = &each;
  }
  return found;
}

Result<std::unique_ptr<TokenFile>> TokenFile::open(std::string what, std::string path,
                                                   OnRead on_read, bool group_may_read) {
  std::unique_ptr<TokenFile> file(
      new TokenFile(std::move(what), std::move(path), std::move(on_read), group_may_read));
  file->stamp_ = file->stamp();
  auto tokens = file->read();
  if (!tokens) return tl::unexpected(tokens.error());
  file->tokens_ = std::make_shared<const Tokens>(*std::move(tokens));
  return file;
}

TokenFile::Stamp TokenFile::stamp() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  // The time of the last change of contents, owner or mode.
  return {.seconds = status.st_ctim.tv_sec,
          .nanoseconds = status.st_ctim.tv_nsec,
          .inode = status.st_ino,
          .size = status.st_size};
}

Result<Tokens> TokenFile::read() const {
  const auto text = auth::read_private_file(what_, path_, kTokenFileBytesMax, group_may_read_);
  if (!text) return tl::unexpected(text.error());
  auto tokens = parse_tokens(*text);
  if (!tokens) return failure(fmt::format("{} {}: {}", what_, path_, tokens.error().text));
  return tokens;
}

void TokenFile::take(Stamp stamp) {
  stamp_ = stamp;
  auto tokens = read();
  if (tokens) tokens_ = std::make_shared<const Tokens>(*std::move(tokens));
  on_read_(tokens ? std::nullopt : std::optional(tokens.error()));
}

std::shared_ptr<const Tokens> TokenFile::tokens() {
  const std::lock_guard lock(mutex_);
  if (const Stamp now = stamp(); now != stamp_) take(now);
  return tokens_;
}

void TokenFile::read_again() {
  const std::lock_guard lock(mutex_);
  take(stamp());
}

}  // namespace tributary::control
