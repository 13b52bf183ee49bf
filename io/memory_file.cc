// SPDX-License-Identifier: Apache-2.0
#include "io/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "base/errno_text.h"

namespace tributary::io {

Result<MemoryFile> MemoryFile::create() {
  FileDescriptor descriptor(::memfd_create("tributary", MFD_CLOEXEC));
  if (!descriptor.is_open()) {
    return system_failure(errno, "cannot make a file in memory");
  }
  return MemoryFile(std::move(descriptor));
}

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", descriptor_.get()); }

Result<std::string> MemoryFile::read() const {
  const auto failed = [] { return system_failure(errno, "cannot read a file in memory"); };
  std::ifstream file(path(), std::ios::binary);
  if (!file) return failed();
  std::string content;
  std::array<char, 65'536> chunk;
  while (file.read(chunk.data(), chunk.size()) || file.gcount() > 0) {
    content.append(chunk.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return failed();
  return content;
}

}  // namespace tributary::io
