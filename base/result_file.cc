// SPDX-License-Identifier: Apache-2.0
#include "base/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/errno_text.h"
#include "base/pipe_signal_guard.h"

namespace tributary {
namespace {

/// Most links from one to the next. Source: Linux (MAXSYMLINKS).
constexpr uint32_t kLinksMax = 40;
/// Attempts to find a name that no other file has.
constexpr uint32_t kNamesMax = 100;

tl::unexpected<Error> refuse(const std::string& path, std::string_view why) {
  return failure(fmt::format("{}: cannot be written: {}", path, why));
}

/// Writes everything. @return 0, or the error; ETIMEDOUT if a pipe stayed full.
int write_all(int file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{.fd = file, .events = POLLOUT, .revents = 0};
      const int ready = ::poll(&room, 1, static_cast<int>(in_milliseconds(kPipeWaitMax)));
      if (ready == 0) return ETIMEDOUT;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Writes everything and closes the file. @return 0, or the first error.
int write_and_close(int file, std::string_view content) {
  const int error = write_all(file, content);
  // Some file systems report a full disk only here.
  return ::close(file) != 0 && error == 0 ? errno : error;
}

std::string describe_pipe_error(int error) {
  switch (error) {
    case ENXIO:
      return "nobody reads this pipe; start its reader first";
    case EPIPE:
      return "the reader of this pipe has ended";
    case ETIMEDOUT:
      return "the reader of this pipe reads nothing";
    default:
      return errno_text(error);
  }
}

/// Writes to a device or a pipe.
Result<void> write_straight(const std::string& path, std::string_view content) {
  const PipeSignalGuard guard;
  // Opened so, a pipe without a reader is an error instead of a wait.
  const int file = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const int error = file < 0 ? errno : write_and_close(file, content);
  if (error != 0) return refuse(path, describe_pipe_error(error));
  return {};
}

/// Appends to a file that this process has open, after its earlier output.
Result<void> write_behind(FILE* stream, const std::string& path, std::string_view content) {
  const PipeSignalGuard guard;
  const bool good = std::fwrite(content.data(), 1, content.size(), stream) == content.size() &&
                    std::fflush(stream) == 0;
  if (!good) return refuse(path, errno_text(errno));
  return {};
}

/// Follows symbolic links, also to a target that does not exist.
Result<std::string> target_of(const std::string& path) {
  std::filesystem::path target = path;
  for (uint32_t i = 0; i < kLinksMax; i++) {
    std::error_code error;
    const auto next = std::filesystem::read_symlink(target, error);
    if (error) return target.string();  // No link.
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return refuse(path, errno_text(ELOOP));
}

/// Creates an empty file beside `target`. @return its descriptor; -1 with errno.
int create_beside(const std::string& target, mode_t mode, std::string& name) {
  for (uint32_t i = 0; i < kNamesMax; i++) {
    name = fmt::format("{}.new-{}-{}", target, ::getpid(), i);
    // O_EXCL also refuses a link.
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

tl::unexpected<Error> refuse_folder(const std::string& path) {
  return refuse(path, fmt::format("no file can be created in its folder: {}", errno_text(errno)));
}

/// Writes and closes the new file, and gives it the name of the target. Removes it after an error.
/// @param error 0, or an error that the new file already has. @return 0, or the first error.
int put_in_place(int file, const std::string& temporary, const std::string& target,
                 std::string_view content, int error) {
  const int write_error = write_and_close(file, content);
  if (error == 0) error = write_error;
  if (error == 0 && ::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

/// Replaces the file in one step. @param old The file that is there; null if there is none.
Result<void> replace(const std::string& path, std::string_view content, const struct stat* old) {
  const auto target = target_of(path);
  if (!target) return tl::unexpected(target.error());
  if (old != nullptr && ::access(path.c_str(), W_OK) != 0) return refuse(path, errno_text(errno));
  std::string temporary;
  const int file = create_beside(*target, 0666, temporary);
  if (file < 0) return refuse_folder(path);
  int error = 0;
  if (old != nullptr) {
    // Only a privileged process may keep another owner; for others the file becomes theirs.
    static_cast<void>(::fchown(file, old->st_uid, old->st_gid) == 0);
    if (::fchmod(file, old->st_mode & 07777) != 0) error = errno;
  }
  error = put_in_place(file, temporary, *target, content, error);
  if (error != 0) return refuse(path, errno_text(error));
  return {};
}

/// Returns the stream that this file is, as with /dev/stdout; null if it is none.
FILE* stream_of(const struct stat& file) {
  for (FILE* const stream : {stdout, stderr}) {
    struct stat open {};
    if (::fstat(::fileno(stream), &open) != 0) continue;
    if (open.st_dev == file.st_dev && open.st_ino == file.st_ino) return stream;
  }
  return nullptr;
}

/// Refuses a folder and a socket.
Result<void> check_kind(const std::string& path, const struct stat& file) {
  if (S_ISDIR(file.st_mode)) return refuse(path, "it is a folder; give the name of a file");
  if (S_ISSOCK(file.st_mode)) {
    return refuse(path, "it is a socket; give a file, a pipe or a device");
  }
  return {};
}

}  // namespace

Result<void> write_result_file(const std::string& path, std::string_view content) {
  if (path == kStandardOutput) return write_behind(stdout, "standard output", content);
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) {
    if (errno != ENOENT) return refuse(path, errno_text(errno));
    return replace(path, content, nullptr);
  }
  if (FILE* const stream = stream_of(found)) return write_behind(stream, path, content);
  switch (found.st_mode & S_IFMT) {
    case S_IFREG:
      return replace(path, content, &found);
    case S_IFCHR:
    case S_IFBLK:
    case S_IFIFO:
      return write_straight(path, content);
    default:
      return check_kind(path, found);
  }
}

Result<void> write_private_file(const std::string& path, std::string_view content) {
  std::string temporary;
  const int file = create_beside(path, 0600, temporary);
  if (file < 0) return refuse_folder(path);
  const int error = put_in_place(file, temporary, path, content, 0);
  if (error != 0) return refuse(path, errno_text(error));
  return {};
}

Result<void> check_result_file(const std::string& path) {
  if (path == kStandardOutput) return {};
  struct stat found {};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) return refuse(path, errno_text(errno));
  if (exists) {
    if (stream_of(found) != nullptr) return {};
    if (const auto kind = check_kind(path, found); !kind) return kind;
    if (::access(path.c_str(), W_OK) != 0) return refuse(path, errno_text(errno));
    if (!S_ISREG(found.st_mode)) return {};
  }
  const auto target = target_of(path);
  if (!target) return tl::unexpected(target.error());
  const std::string folder = std::filesystem::path(*target).parent_path().string();
  // Replacing a file needs a new one beside it.
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return refuse_folder(path);
  }
  return {};
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  if (std::filesystem::exists(a, none) && std::filesystem::exists(b, none)) {
    return std::filesystem::is_regular_file(a, none) && std::filesystem::equivalent(a, b, none);
  }
  return std::filesystem::weakly_canonical(a, none) == std::filesystem::weakly_canonical(b, none);
}

}  // namespace tributary
