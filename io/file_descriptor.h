// SPDX-License-Identifier: Apache-2.0
/// @file
/// Owns one file descriptor and closes it in the destructor.
///
/// Threads: Only one thread may move it. Any thread may call get().
/// Tests:   through tests/io/udp/udp_port_test.cc
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
