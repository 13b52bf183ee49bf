// SPDX-License-Identifier: Apache-2.0
#include "server/control/request_reader.h"

#include <strings.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/number_text.h"

namespace tributary::control {
namespace {

constexpr std::string_view kBlanks = " \t\r";

/// Returns the size of the head with the empty line that ends it; 0 if the line is missing. A line
/// may end in "\n" alone: httplib refuses the request, and its client waits for no timeout.
/// @param from No head ends before.
size_t head_end(std::string_view bytes, size_t from) {
  for (size_t line = from; line < bytes.size(); line++) {
    if (line > 0 && bytes[line - 1] != '\n') continue;
    const std::string_view rest = bytes.substr(line);
    if (rest.starts_with('\n')) return line + 1;
    if (rest.starts_with("\r\n")) return line + 2;
  }
  return 0;
}

/// Returns the value of the first header with this name; nothing if there is none.
std::optional<std::string_view> header(std::string_view head, std::string_view name) {
  while (!head.empty()) {
    const size_t end = std::min(head.find('\n'), head.size() - 1);
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 1);
    if (line.size() <= name.size() || line[name.size()] != ':' ||
        strncasecmp(line.data(), name.data(), name.size()) != 0) {
      continue;
    }
    std::string_view value = line.substr(name.size() + 1);
    value.remove_prefix(std::min(value.find_first_not_of(kBlanks), value.size()));
    return value.substr(0, value.find_last_not_of(kBlanks) + 1);
  }
  return {};
}

bool takes_body(std::string_view head) {
  return head.starts_with("POST ") || head.starts_with("PUT ") || head.starts_with("PATCH ");
}

/// Returns the bytes of the body that the server reads: none if it refuses the body.
size_t body_bytes(std::string_view head) {
  const auto text = takes_body(head) ? header(head, "Content-Length") : std::nullopt;
  if (!text) return 0;
  const uint64_t bytes = parse_number<uint64_t>(*text).value_or(0);
  return bytes <= kBodyBytesMax ? bytes : 0;
}

}  // namespace

bool RequestReader::add(std::string_view bytes) {
  // The empty line may have begun in the bytes before.
  const size_t from = bytes_.size() - std::min<size_t>(bytes_.size(), 2);
  bytes_.append(bytes);
  if (wanted_bytes_ == 0) {
    if (const size_t head_bytes = head_end(bytes_, from); head_bytes > 0) read_head(head_bytes);
  }
  return (wanted_bytes_ > 0 && bytes_.size() >= wanted_bytes_) || room() == 0;
}

void RequestReader::read_head(size_t head_bytes) {
  const std::string_view head = std::string_view(bytes_).substr(0, head_bytes);
  wanted_bytes_ = head_bytes + body_bytes(head);
  expects_continue_ = bytes_.size() < wanted_bytes_ && header(head, "Expect") == "100-continue";
}

}  // namespace tributary::control
