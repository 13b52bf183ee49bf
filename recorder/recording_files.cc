// SPDX-License-Identifier: Apache-2.0
#include "recorder/recording_files.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/errno_text.h"
#include "base/result_file.h"
#include "base/trusted_folder.h"
#include "recorder/recording.h"

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

/// Tells whether a recording may be read: others may have put links, pipes and files here before
/// the folder was closed to them.
bool is_own_file(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

std::filesystem::file_time_type time_of(const timespec& time) {
  const auto since = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  return std::chrono::file_clock::from_sys(std::chrono::sys_time<std::chrono::nanoseconds>(since));
}

/// Reads everything. @return nothing after an error, or if there are more than kFileBytesMax bytes.
std::optional<std::string> read_all(int file, uint64_t size_bytes) {
  if (size_bytes > kFileBytesMax) return {};
  std::string content;
  content.reserve(size_bytes);
  std::array<char, 65'536> chunk;
  while (true) {
    const ssize_t count = ::read(file, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {};
    if (count == 0) return content;
    content.append(chunk.data(), static_cast<size_t>(count));
    if (content.size() > kFileBytesMax) return {};
  }
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
  if (!is_trusted_folder(folder)) {
    return failure(
        fmt::format("{}: another user can write to it; give a folder that belongs to this user "
                    "or root, without write permission for group and others (chmod go-w)",
                    folder));
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
  const auto written = write_private_file(path, content);
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
    struct stat status {};
    if (lstat(it->path().c_str(), &status) != 0 || !is_own_file(status)) continue;
    files.push_back({.name = std::move(name),
                     .written = time_of(status.st_mtim),
                     .size_bytes = static_cast<uint64_t>(status.st_size)});
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
  if (!is_recording_of(name, name_) || name.find('/') != std::string_view::npos) return {};
  const std::string path = fmt::format("{}/{}", folder_, name);
  // O_NONBLOCK: a pipe that has taken the file's place must not hold this thread.
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat status {};
  std::optional<std::string> content;
  if (fstat(file, &status) == 0 && is_own_file(status)) {
    content = read_all(file, static_cast<uint64_t>(status.st_size));
  }
  ::close(file);
  return content;
}

void RecordingFiles::remove_oldest() const {
  const std::vector<RecordingFile> files = list();
  std::error_code error;
  for (size_t i = 0; i + kFilesMax < files.size(); i++) {
    std::filesystem::remove(std::filesystem::path(folder_) / files[i].name, error);
  }
}

}  // namespace tributary::recorder
