// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file without a name, in memory, that other code opens by a path.
///
/// Threads: One.
/// Errors:  create() fails if the machine has no memory or no descriptors.
/// Tests:   tests/io/memory_file_test.cc
#pragma once

#include <string>

#include "base/result.h"
#include "io/file_descriptor.h"

namespace tributary::io {

class MemoryFile {
 public:
  [[nodiscard]] static Result<MemoryFile> create();
  /// Returns a path that is valid in this process as long as the object lives.
  [[nodiscard]] std::string path() const;
  /// Returns the whole content, or an Error if the machine cannot read it.
  [[nodiscard]] Result<std::string> read() const;

 private:
  explicit MemoryFile(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  FileDescriptor descriptor_;
};

}  // namespace tributary::io
