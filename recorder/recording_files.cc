// SPDX-License-Identifier: Apache-2.0
#include "recorder/recording_files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/errno_text.h"
#include "base/result_file.h"

namespace tributary::recorder {
namespace {

constexpr std::string_view kSuffix = ".trec";
/// "20261123T201500.123Z".
constexpr size_t kStampBytes = 20;

std::string stamp_of(std::chrono::system_clock::time_point now) {
  const auto since = now.time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count() % 1000;
  return fmt::format("{:%Y%m%dT%H%M%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

/// A file system's clock may be ahead of this machine's by less.
constexpr std::chrono::minutes kClocksDiffer{1};

/// Tells whether a file's name is that of a recording of `name`, and not of `name`-2.
bool is_recording_of(std::string_view file, std::string_view name) {
  if (!file.starts_with(name) || !file.ends_with(kSuffix)) return false;
  file.remove_prefix(name.size());
  return file.size() > kStampBytes + 2 && file[0] == '-' && file[1] >= '0' && file[1] <= '9' &&
         file[9] == 'T' && file[kStampBytes] == 'Z';
}

}  // namespace

Result<RecordingFiles> RecordingFiles::open(const std::string& folder, const std::string& name) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) {
    return failure(fmt::format("{}: {}; give a folder that exists", folder, errno_text(errno)));
  }
  if (!S_ISDIR(status.st_mode)) {
    return failure(fmt::format("{}: is not a folder; give a folder that exists", folder));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return failure(fmt::format("{}: {}; give a folder in which this user may write", folder,
                               errno_text(errno)));
  }
  std::string file_name = name;
  std::ranges::replace(file_name, '/', '_');
  RecordingFiles files(folder, std::move(file_name));
  files.remove_oldest();  // Those of abnormal ends, which remove none.
  return files;
}

std::string RecordingFiles::path_for(Cause cause) const {
  return fmt::format("{}/{}-{}-{}{}", folder_, name_, stamp_of(std::chrono::system_clock::now()),
                     name_of(cause), kSuffix);
}

Result<std::string> RecordingFiles::store(Cause cause, std::string_view content) const {
  std::string path = path_for(cause);
  const auto written = write_result_file(path, content);
  if (!written) return tl::unexpected(written.error());
  remove_oldest();
  return path;
}

std::vector<RecordingFile> RecordingFiles::list() const {
  std::vector<RecordingFile> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!is_recording_of(name, name_)) continue;
    std::error_code unknown;
    const uintmax_t size_bytes = it->file_size(unknown);
    files.push_back({.name = std::move(name),
                     .written = it->last_write_time(unknown),
                     .size_bytes = unknown ? 0 : size_bytes});
  }
  // By the time of writing: an abnormal end's file is named after the start of its process. A file
  // from the future was written before the clock was set back, so it is older than the others.
  const auto latest = std::filesystem::file_time_type::clock::now() + kClocksDiffer;
  std::ranges::sort(files, {}, [latest](const RecordingFile& file) {
    return std::tuple(file.written <= latest, file.written, std::string_view(file.name));
  });
  return files;
}

std::optional<std::string> RecordingFiles::read(std::string_view name) const {
  const std::vector<RecordingFile> files = list();
  if (std::ranges::find(files, name, &RecordingFile::name) == files.end()) return {};
  std::ifstream file(std::filesystem::path(folder_) / name, std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(file), {});
  return file ? std::optional(std::move(content)) : std::nullopt;
}

void RecordingFiles::remove_oldest() const {
  const std::vector<RecordingFile> files = list();
  std::error_code error;
  for (size_t i = 0; i + kFilesMax < files.size(); i++) {
    std::filesystem::remove(std::filesystem::path(folder_) / files[i].name, error);
  }
}

}  // namespace tributary::recorder
