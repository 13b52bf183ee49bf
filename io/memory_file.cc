// SPDX-License-Identifier: Apache-2.0
#include "io/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "base/errno_text.h"

namespace tributary::io {

Result<MemoryFile> MemoryFile::create() {
  FileDescriptor descriptor(::memfd_create("tributary", MFD_CLOEXEC));
  if (!descriptor.is_open()) {
    return failure(fmt::format("cannot make a file in memory: {}", errno_text(errno)));
  }
  return MemoryFile(std::move(descriptor));
}

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", descriptor_.get()); }

std::string MemoryFile::read() const {
  std::ifstream file(path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tributary::io
