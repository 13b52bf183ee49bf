// SPDX-License-Identifier: Apache-2.0
/// @file
/// The recordings of one process in a folder: their names, and how many stay.
///
/// Model:   A file is NAME-TIME-CAUSE.trec, with the time in UTC. The newest kFilesMax stay, so a
///          server that stalls again and again does not fill the disk.
/// Trust:   Nobody else may write to the folder. Files are for their owner alone (mode 0600), and
///          this class lists, reads and removes only regular files of this user.
/// Threads: Any; the file system serialises.
/// Errors:  One line with the path, the cause and the remedy. A file that does not fit is removed.
/// Tests:   tests/recorder/recording_files_test.cc
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "recorder/format.h"

namespace tributary::recorder {

/// Assumed: enough to see a pattern. At the default size a file has a megabyte for each core.
inline constexpr uint32_t kFilesMax = 16;

struct RecordingFile {
  std::string name;
  std::filesystem::file_time_type written;
  uint64_t size_bytes = 0;
};

class RecordingFiles {
 public:
  /// @param folder Exists, is writable and is_trusted_folder(); else an error.
  /// @param name   Name of the server; "/" becomes "_".
  static Result<RecordingFiles> open(const std::string& folder, const std::string& name);

  /// Returns a path for a file of this moment.
  [[nodiscard]] std::string path_for(Cause cause) const;
  /// Returns the files of this server, oldest first.
  [[nodiscard]] std::vector<RecordingFile> list() const;
  /// Returns the content of one of list(); nothing if there is none with this name, or if it is
  /// larger than kFileBytesMax. Never waits for another process.
  [[nodiscard]] std::optional<std::string> read(std::string_view name) const;
  /// Writes a recording and removes the oldest ones. @return its path.
  [[nodiscard]] Result<std::string> store(Cause cause, std::string_view content) const;

 private:
  RecordingFiles(std::string folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {}
  void remove_oldest() const;

  std::string folder_;
  std::string name_;
};

}  // namespace tributary::recorder
