// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pseudo-terminal of a given width: a command writes to `terminal`, the test reads the screen.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <string>

#include "io/file_descriptor.h"

namespace tributary::cli {

struct Pty {
  explicit Pty(uint16_t columns) {
    screen = io::FileDescriptor(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_EQ(grantpt(screen.get()), 0);
    EXPECT_EQ(unlockpt(screen.get()), 0);
    std::array<char, 64> name{};
    EXPECT_EQ(ptsname_r(screen.get(), name.data(), name.size()), 0);
    terminal = io::FileDescriptor(open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    EXPECT_EQ(ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
  }

  /// Reads until `seen` contains `text`. @return false after a minute without output.
  bool wait_for(const std::string& text) {
    while (seen.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  /// Appends to `seen` what was written, after waiting for at least one byte.
  bool read_some() {
    pollfd ready{screen.get(), POLLIN, 0};
    if (poll(&ready, 1, 60'000) != 1) return false;
    std::array<char, 4096> buffer;
    const ssize_t size = ::read(screen.get(), buffer.data(), buffer.size());
    if (size <= 0) return false;
    seen.append(buffer.data(), static_cast<size_t>(size));
    return true;
  }

  io::FileDescriptor screen;
  io::FileDescriptor terminal;
  std::string seen;
};

}  // namespace tributary::cli
