// SPDX-License-Identifier: Apache-2.0
/// @file
/// Owner of one file descriptor: closes it when it goes.
///
/// Threads: Moves belong to one thread; get() may be read by any.
/// Tests:   by way of tests/io/udp/udp_port_test.cc
#pragma once

#include <unistd.h>

#include <utility>

namespace tributary::io {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes ownership of `fd`; -1 owns nothing.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace tributary::io
