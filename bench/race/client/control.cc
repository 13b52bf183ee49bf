// SPDX-License-Identifier: Apache-2.0
#include "bench/race/client/control.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace tributary::race {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return failure(fmt::format("control path {}: {} characters; allowed: {}", path, path.size(),
                               sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Removes the next blank and number from the start of `text`.
template <class Number>
bool take_number(std::string_view& text, Number& value) {
  if (text.empty() || text.front() != ' ') return false;
  text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string encode(const LapReport& report) {
  return fmt::format("lap {} {} {} {} {} {} {} {}", report.start_ns, report.end_ns, report.cpu_ns,
                     report.rx_bytes, report.tx_bytes, report.wrong, report.partial, report.digest);
}

Result<LapReport> decode_lap(std::string_view line) {
  LapReport report;
  std::string_view rest = line;
  const bool read = take_word(rest, "lap") && take_number(rest, report.start_ns) &&
                    take_number(rest, report.end_ns) && take_number(rest, report.cpu_ns) &&
                    take_number(rest, report.rx_bytes) && take_number(rest, report.tx_bytes) &&
                    take_number(rest, report.wrong) && take_number(rest, report.partial) &&
                    take_number(rest, report.digest) && rest.empty();
  const bool possible = report.end_ns >= report.start_ns && report.cpu_ns >= 0;
  if (!read || !possible) return failure(fmt::format("a worker's line is not a lap: '{}'", line));
  return report;
}

Result<uint32_t> decode_hello(std::string_view line) {
  uint32_t rank = 0;
  std::string_view rest = line;
  if (take_word(rest, "hello") && take_number(rest, rank) && rest.empty()) return rank;
  return failure(fmt::format("a worker's line is not a greeting: '{}'", line));
}

Result<LineSocket> LineSocket::connect(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return tl::unexpected(address.error());
  LineSocket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.file_, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return failure(fmt::format("control path {}: {}", path, std::strerror(errno)));
  }
  return socket;
}

LineSocket::LineSocket(LineSocket&& other) noexcept
    : file_(std::exchange(other.file_, -1)), rest_(std::move(other.rest_)) {}

LineSocket::~LineSocket() {
  if (file_ >= 0) close(file_);
}

Result<void> LineSocket::send_line(std::string_view line) {
  std::string text(line.substr(0, kControlLineBytesMax - 1));
  std::replace(text.begin(), text.end(), '\n', ' ');
  text += '\n';
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t sent = send(file_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return failure(fmt::format("control connection: {}", std::strerror(errno)));
    left.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Result<bool> LineSocket::read_some(int flags) {
  std::array<char, kControlLineBytesMax> buffer{};
  const ssize_t size = recv(file_, buffer.data(), buffer.size(), flags);
  if (size > 0) {
    rest_.append(buffer.data(), static_cast<size_t>(size));
    const size_t line_end = rest_.rfind('\n');
    const size_t unfinished =
        line_end == std::string::npos ? rest_.size() : rest_.size() - line_end;
    if (unfinished > kControlLineBytesMax) return failure("control connection: line too long");
    return true;
  }
  if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  return false;
}

Result<std::string> LineSocket::read_line() {
  while (true) {
    if (const size_t end = rest_.find('\n'); end != std::string::npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return line;
    }
    const auto open = read_some(0);
    if (!open) return tl::unexpected(open.error());
    if (!*open) return failure("control connection: closed by the race");
  }
}

Result<std::vector<std::string>> LineSocket::take_lines() {
  const auto open = read_some(MSG_DONTWAIT);
  if (!open) return tl::unexpected(open.error());
  std::vector<std::string> lines;
  for (size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1)) {
    lines.push_back(rest_.substr(0, end));
  }
  if (!*open && lines.empty()) return failure("control connection: closed by the worker");
  return lines;
}

Result<ControlListener> ControlListener::open(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return tl::unexpected(address.error());
  const int file = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ControlListener listener(file, path);
  const auto* generic = reinterpret_cast<const sockaddr*>(&*address);
  if (bind(file, generic, sizeof *address) != 0 || listen(file, SOMAXCONN) != 0) {
    return failure(fmt::format("control path {}: {}", path, std::strerror(errno)));
  }
  return listener;
}

ControlListener::ControlListener(ControlListener&& other) noexcept
    : file_(std::exchange(other.file_, -1)), path_(std::move(other.path_)) {}

ControlListener::~ControlListener() {
  if (file_ < 0) return;
  close(file_);
  unlink(path_.c_str());
}

int ControlListener::accept_now() { return accept4(file_, nullptr, nullptr, SOCK_CLOEXEC); }

}  // namespace tributary::race
