// SPDX-License-Identifier: Apache-2.0
/// @file
/// A directory for one test, removed with its content.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tributary::testing {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = ::testing::TempDir() + "tributary-test-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch directory");
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file and returns its path.
  [[nodiscard]] std::string file(const std::string& name, const std::string& text = "") const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tributary::testing
