// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Unix sockets of running servers: folders, names, and how commands find them.
///
/// Model:   A server named NAME listens on FOLDER/NAME.sock. Folders in order: $RUNTIME_DIRECTORY
///          (set by systemd), /run/tributary, $XDG_RUNTIME_DIR/tributary, /tmp/tributary-UID.
/// Threads: Any.
/// Errors:  One line with the path, the cause and the remedy.
/// Tests:   tests/server/socket_place_test.cc
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/file_descriptor.h"

namespace tributary::server {

/// Returns the folders in which sockets may lie, in order of preference. They may not exist.
[[nodiscard]] std::vector<std::string> socket_folders();

/// Returns the first of `folders` in which this process can make a socket. Creates it if necessary.
/// Refuses a folder in /tmp that others can write to.
[[nodiscard]] Result<std::string> writable_folder(const std::vector<std::string>& folders);

/// Checks that a server's name is usable as a file name: 1 to 64 of A-Z a-z 0-9 . _ - : [ ].
[[nodiscard]] Result<void> check_name(std::string_view name);

[[nodiscard]] std::string socket_path(const std::string& folder, std::string_view name);

enum class SocketState {
  kAnswers,
  kMissing,
  kStale,         ///< The file remained from a server that was killed.
  kNoPermission,  ///< The server runs as another user.
  kUnknown,       ///< The system could not connect: no free descriptor, for example.
};
/// Connects to the socket to find out. errno has the cause of kUnknown.
[[nodiscard]] SocketState probe(const std::string& path);

/// Returns the process that listens on the socket; 0: unknown.
[[nodiscard]] int process_at(const std::string& path);

/// The right to bind a socket in a folder. Two servers that start at once take turns.
///
/// The claim is a lock on FOLDER/.lock, which only the folder's owner and root can open: any user
/// who can read the folder could lock the folder itself. The destructor removes the file. A file
/// that a killed server left is not locked, so it is taken over.
class SocketClaim {
 public:
  SocketClaim(std::string path, io::FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  SocketClaim(SocketClaim&&) = default;
  SocketClaim& operator=(SocketClaim&&) = delete;
  ~SocketClaim();

 private:
  std::string path_;         ///< Path of the lock file.
  io::FileDescriptor lock_;  ///< Not open if the claim was moved away.
};
/// Removes the stale sockets in the folder of `path`. @return an Error if a server answers at
/// `path`. The caller keeps the claim until its socket listens.
[[nodiscard]] Result<SocketClaim> claim_socket(const std::string& path);

struct FoundServer {
  std::string name;
  std::string path;
  SocketState state = SocketState::kMissing;
};
/// Returns the servers of all folders, except for stale sockets, by name. Refuses if the system
/// cannot read a folder or connect to a socket for a reason other than a missing permission.
[[nodiscard]] Result<std::vector<FoundServer>> find_servers(
    const std::vector<std::string>& folders);

/// Returns the server with this name; if `name` is empty, the only one.
[[nodiscard]] Result<FoundServer> choose_server(const std::vector<FoundServer>& servers,
                                                const std::string& name);

}  // namespace tributary::server
