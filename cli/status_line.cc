// SPDX-License-Identifier: Apache-2.0
#include "cli/status_line.h"

#include <sys/ioctl.h>

#include <chrono>
#include <utility>

namespace tributary::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEvery{500};
/// Returns to the start of the line and clears it (ECMA-48: EL).
constexpr std::string_view kWipe = "\r\x1b[K";
/// Width of terminals that do not report it.
constexpr uint32_t kUsualColumns = 80;

/// Writes to the terminal. A line that is lost harms nobody.
void write_text(int file, std::string_view text) {
  static_cast<void>(::write(file, text.data(), text.size()) >= 0);
}

}  // namespace

std::string clip_line(std::string_view text, uint32_t columns) {
  uint32_t shown = 0;
  size_t end = 0;
  for (; end < text.size(); end++) {
    const bool begins_character = (static_cast<unsigned char>(text[end]) & 0xc0U) != 0x80U;
    if (begins_character && ++shown >= columns) break;
  }
  return std::string(text.substr(0, end));
}

uint32_t terminal_columns(int file) {
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

void overwrite_line(int file, std::string_view text) {
  write_text(file, std::string(kWipe) + clip_line(text, terminal_columns(file)));
}

StatusLine::StatusLine(Text text, int file) : text_(std::move(text)), file_(file) {
  if (isatty(file) != 1) return;
  printer_ = std::jthread([this](const std::stop_token& stop) { print_until_stopped(stop); });
}

StatusLine::~StatusLine() {
  if (!printer_.joinable()) return;
  printer_.request_stop();
  printer_.join();
}

void StatusLine::print_until_stopped(const std::stop_token& stop) {
  const Clock::time_point start = Clock::now();
  bool printed = false;
  std::unique_lock lock(mutex_);
  while (true) {
    stopped_.wait_for(lock, stop, kEvery, [] { return false; });
    if (stop.stop_requested()) break;
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    overwrite_line(file_, text_(elapsed.count()));
    printed = true;
  }
  if (printed) write_text(file_, kWipe);
}

}  // namespace tributary::cli
