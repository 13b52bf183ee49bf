// SPDX-License-Identifier: Apache-2.0
#include "server/socket_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/errno_text.h"
#include "base/trusted_folder.h"
#include "io/descriptor_limit.h"

namespace tributary::server {
namespace {

constexpr std::string_view kSuffix = ".sock";
/// In a socket's folder. No server can have this name: see check_name().
constexpr const char* kLockFile = "/.lock";
constexpr size_t kNameMax = 64;
constexpr mode_t kOwnerOnly = 0700;
/// Servers that start at the same time hold the lock for milliseconds.
constexpr std::chrono::seconds kLockWithin{5};

std::string text_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::string() : std::string(value);
}

/// @return an empty string if the folder is usable, otherwise the cause.
std::string why_not_writable(const std::string& folder) {
  if (mkdir(folder.c_str(), kOwnerOnly) == 0) return {};
  if (errno != EEXIST) return errno_text(errno);
  if (!is_trusted_folder(folder)) return "another user can write to it";
  return access(folder.c_str(), W_OK | X_OK) == 0 ? std::string() : errno_text(errno);
}

/// Opens the lock's file, or makes it. A file that root makes gets the folder's owner, so that a
/// server of that user can open it, too. @return not open: see errno.
io::FileDescriptor open_lock(const std::string& folder, const std::string& path) {
  io::FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                               S_IRUSR | S_IWUSR));
  struct stat status {};
  if (file.is_open() && geteuid() == 0 && stat(folder.c_str(), &status) == 0) {
    // A failure leaves it to root, whose servers can still start.
    static_cast<void>(fchown(file.get(), status.st_uid, status.st_gid) == 0);
  }
  return file;
}

/// Tells whether the open file is the one at `path`: its previous holder removes it.
bool is_at(int file, const std::string& path) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Locks the file at `path` for this process alone, and makes it if necessary.
/// @return not open: see errno. EWOULDBLOCK: another process holds the lock.
io::FileDescriptor lock_within(const std::string& folder, const std::string& path,
                               std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    io::FileDescriptor file = open_lock(folder, path);
    if (!file.is_open()) return file;
    if (flock(file.get(), LOCK_EX | LOCK_NB) == 0 && is_at(file.get(), path)) return file;
    if (std::chrono::steady_clock::now() >= deadline) {
      file = {};
      errno = EWOULDBLOCK;
      return {};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Returns the sockets in a folder, whether their servers run or not.
/// @param error Set if the folder exists but cannot be read to its end.
std::vector<std::filesystem::path> sockets_in(const std::string& folder, std::error_code& error) {
  std::vector<std::filesystem::path> sockets;
  std::filesystem::directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code gone;
    if (at->path().filename().string().ends_with(kSuffix) && at->is_socket(gone)) {
      sockets.push_back(at->path());
    }
  }
  // Nor can this user reach a socket in a folder that is not his.
  const int cause = error.value();
  if (cause == ENOENT || cause == ENOTDIR || cause == EACCES || cause == EPERM) error.clear();
  return sockets;
}

/// Removes the other sockets of killed servers, so that they do not pile up. @pre The folder is
/// locked: a server that starts binds its socket before it listens.
void remove_stale(const std::string& folder) {
  std::error_code unread;  // Then they stay.
  for (const std::filesystem::path& path : sockets_in(folder, unread)) {
    if (probe(path) == SocketState::kStale) unlink(path.c_str());
  }
}

/// Connects to a socket without waiting. @return not open: see errno.
io::FileDescriptor connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  errno = ENAMETOOLONG;
  if (path.size() >= sizeof(address.sun_path)) return {};
  path.copy(address.sun_path, path.size());
  io::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return {};
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return socket;
  }
  const int cause = errno;
  socket = {};
  errno = cause;
  return {};
}

/// Returns why it is unknown whether a server runs, and the remedy if there is a usual one.
std::string unknown_text(int error) {
  const bool is_full = error == EMFILE || error == ENFILE;
  return fmt::format("cannot tell whether a server runs ({}){}", errno_text(error),
                     is_full ? io::kDescriptorRemedy : "");
}

std::string names_of(const std::vector<FoundServer>& servers) {
  std::string names;
  for (const FoundServer& server : servers) names += (names.empty() ? "" : ", ") + server.name;
  return names;
}

}  // namespace

std::vector<std::string> socket_folders() {
  std::vector<std::string> folders;
  // systemd lists several folders with colons between them.
  const std::string runtime = text_of("RUNTIME_DIRECTORY");
  if (!runtime.empty()) folders.push_back(runtime.substr(0, runtime.find(':')));
  if (runtime.empty()) {
    folders.emplace_back("/run/tributary");
    const std::string user_folder = text_of("XDG_RUNTIME_DIR");
    folders.push_back(user_folder.empty() ? fmt::format("/run/user/{}/tributary", geteuid())
                                          : user_folder + "/tributary");
    folders.push_back(fmt::format("/tmp/tributary-{}", geteuid()));
  }
  return folders;
}

Result<std::string> writable_folder(const std::vector<std::string>& folders) {
  std::string causes;
  for (const std::string& folder : folders) {
    const std::string cause = why_not_writable(folder);
    if (cause.empty()) return folder;
    causes += fmt::format("{}{} ({})", causes.empty() ? "" : ", ", folder, cause);
  }
  return failure(fmt::format(
      "no folder for the control socket is writable: {}; to fix: set XDG_RUNTIME_DIR to a "
      "folder of this user, or check RUNTIME_DIRECTORY",
      causes));
}

Result<void> check_name(std::string_view name) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-:[]").find(c) != std::string_view::npos;
  };
  if (!name.empty() && name.size() <= kNameMax && name[0] != '.' &&
      std::ranges::all_of(name, is_good)) {
    return {};
  }
  return failure(fmt::format(
      "--name '{}' is not allowed; allowed: 1 to {} of A-Z a-z 0-9 . _ - : [ ], no dot first", name,
      kNameMax));
}

std::string socket_path(const std::string& folder, std::string_view name) {
  return fmt::format("{}/{}{}", folder, name, kSuffix);
}

SocketState probe(const std::string& path) {
  if (connect_to(path).is_open()) return SocketState::kAnswers;
  switch (errno) {
    case EAGAIN:  // Its queue of callers is full.
      return SocketState::kAnswers;
    case ECONNREFUSED:
      return SocketState::kStale;
    case EACCES:
    case EPERM:
      return SocketState::kNoPermission;
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
    case EPROTOTYPE:  // A socket of another type, so not a server's.
      return SocketState::kMissing;
    default:
      return SocketState::kUnknown;
  }
}

int process_at(const std::string& path) {
  const io::FileDescriptor socket = connect_to(path);
  ucred listener{};
  socklen_t size = sizeof listener;
  if (!socket.is_open()) return 0;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) return 0;
  return listener.pid;
}

SocketClaim::~SocketClaim() {
  // The lock ends after this. A process that has opened the removed file opens the next one.
  if (lock_.is_open()) unlink(path_.c_str());
}

Result<SocketClaim> claim_socket(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const std::string lock_path = folder + kLockFile;
  io::FileDescriptor lock = lock_within(folder, lock_path, kLockWithin);
  if (!lock.is_open() && errno == EWOULDBLOCK) {
    return failure(
        fmt::format("control socket {}: another process of this user has locked the folder; to "
                    "fix: see fuser {}",
                    path, lock_path));
  }
  if (!lock.is_open()) {
    return system_failure(errno, fmt::format("control socket {}: lock {}", path, lock_path));
  }
  SocketClaim claim(lock_path, std::move(lock));
  // A connection to a file of another kind fails as one to a stale socket.
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    return failure(fmt::format(
        "control socket {}: a file that is not a socket has this name; to fix: move it, or give "
        "--name NAME",
        path));
  }
  const SocketState state = probe(path);
  if (state == SocketState::kUnknown) {
    const int error = errno;
    return failure(fmt::format("control socket {}: {}", path, unknown_text(error)),
                   errno_kind(error));
  }
  if (state == SocketState::kAnswers || state == SocketState::kNoPermission) {
    return failure(
        fmt::format("control socket {}: another server has it; to fix: give --name NAME", path));
  }
  if (state == SocketState::kStale && unlink(path.c_str()) != 0) {
    return system_failure(
        errno, fmt::format("control socket {}: cannot remove the file of an ended server", path));
  }
  remove_stale(folder);
  return claim;
}

Result<std::vector<FoundServer>> find_servers(const std::vector<std::string>& folders) {
  std::vector<FoundServer> servers;
  for (const std::string& folder : folders) {
    // Any user can make a folder in /tmp.
    if (folder.starts_with("/tmp/") && !is_trusted_folder(folder)) continue;
    std::error_code error;
    for (const std::filesystem::path& path : sockets_in(folder, error)) {
      const std::string file = path.filename();
      FoundServer server{
          .name = file.substr(0, file.size() - kSuffix.size()), .path = path, .state = probe(path)};
      if (server.state == SocketState::kUnknown) {
        return failure(fmt::format("{}: {}", server.path, unknown_text(errno)));
      }
      if (server.state == SocketState::kStale || server.state == SocketState::kMissing) continue;
      servers.push_back(std::move(server));
    }
    if (error) return failure(fmt::format("{}: {}", folder, unknown_text(error.value())));
  }
  std::ranges::sort(servers, {}, &FoundServer::name);
  return servers;
}

Result<FoundServer> choose_server(const std::vector<FoundServer>& servers,
                                  const std::string& name) {
  if (servers.empty()) {
    return failure(
        "no server of this machine has a control socket that this user can see; to fix: start "
        "tributary serve, or run this command as the server's user or root");
  }
  const auto is_meant = [&name](const FoundServer& s) { return name.empty() || s.name == name; };
  const auto found = std::ranges::find_if(servers, is_meant);
  if (found == servers.end()) {
    return failure(fmt::format("--name {}: no such server; running: {}", name, names_of(servers)));
  }
  if (name.empty() && servers.size() > 1) {
    return failure(fmt::format("{} servers are running; give --name with one of: {}",
                               servers.size(), names_of(servers)));
  }
  if (found->state == SocketState::kNoPermission) {
    return failure(
        fmt::format("{}: permission denied; to fix: run this command as the server's "
                    "user or root",
                    found->path));
  }
  return *found;
}

}  // namespace tributary::server
