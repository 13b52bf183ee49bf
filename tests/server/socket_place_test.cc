// SPDX-License-Identifier: Apache-2.0
// Method: folders and sockets in a scratch directory: trusted and untrusted, live and stale.
#include "server/socket_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/support/sanitized.h"
#include "tests/support/scratch_directory.h"

namespace tributary::server {
namespace {

using ::testing::HasSubstr;

/// Binds a socket to the path; it listens until it is closed, and its file remains.
io::FileDescriptor listening(const std::string& path) {
  io::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(socket.get(), 1), 0);
  return socket;
}

TEST(SocketPlace, TakesTheFirstFolderThatIsWritableAndTrusted) {
  const testing::ScratchDirectory scratch;
  const std::string open_to_all = scratch.path() / "open";
  std::filesystem::create_directory(open_to_all);
  std::filesystem::permissions(open_to_all, std::filesystem::perms::all);
  const std::string fresh = scratch.path() / "fresh";
  const std::string below_a_file = scratch.file("file") + "/folder";
  const auto folder = writable_folder({below_a_file, open_to_all, fresh});
  ASSERT_TRUE(folder.has_value()) << folder.error().text;
  EXPECT_EQ(*folder, fresh);
  struct stat status {};
  ASSERT_EQ(stat(fresh.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  EXPECT_EQ(*writable_folder({fresh}), fresh);  // It may exist.

  const auto none = writable_folder({below_a_file, open_to_all});
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().text, HasSubstr("file/folder (Not a directory)"));
  EXPECT_THAT(none.error().text, HasSubstr("open (another user can write to it)"));
}

TEST(SocketPlace, FollowsOnlyLinksToTrustedFolders) {
  const testing::ScratchDirectory scratch;
  const std::string folder = scratch.path() / "private";
  const std::string link = scratch.path() / "link";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
  std::filesystem::create_symlink(folder, link);
  const auto found = writable_folder({link});
  ASSERT_TRUE(found.has_value()) << found.error().text;
  EXPECT_EQ(*found, link);

  std::filesystem::permissions(folder, std::filesystem::perms::all);
  EXPECT_FALSE(writable_folder({link}).has_value());
  std::filesystem::remove(folder);
  EXPECT_FALSE(writable_folder({link}).has_value());
}

TEST(SocketPlace, NamesAreFileNames) {
  for (const char* name : {"a", "0.0.0.0:12000", "[::1]:12000", "rack-4_b"}) {
    EXPECT_TRUE(check_name(name).has_value()) << name;
  }
  for (const std::string name : {"", ".", "../x", "a/b", "a b", "\n"}) {
    EXPECT_FALSE(check_name(name).has_value()) << name;
  }
  EXPECT_TRUE(check_name(std::string(64, 'a')).has_value());
  EXPECT_FALSE(check_name(std::string(65, 'a')).has_value());
}

TEST(SocketPlace, StaleFilesAreTakenOverAndLiveOnesAreNot) {
  const testing::ScratchDirectory scratch;
  const std::string path = socket_path(scratch.path(), "box");
  EXPECT_EQ(probe(path), SocketState::kMissing);
  EXPECT_TRUE(claim_socket(path).has_value());
  {
    const io::FileDescriptor server = listening(path);
    EXPECT_EQ(probe(path), SocketState::kAnswers);
    const auto claim = claim_socket(path);
    ASSERT_FALSE(claim.has_value());
    EXPECT_THAT(claim.error().text, HasSubstr("another server has it; to fix: give --name"));
  }
  EXPECT_EQ(probe(path), SocketState::kStale);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_TRUE(claim_socket(path).has_value());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SocketPlace, AServerRemovesTheSocketsOfKilledOnes) {
  const testing::ScratchDirectory scratch;
  const auto path_of = [&scratch](const char* name) { return socket_path(scratch.path(), name); };
  static_cast<void>(listening(path_of("killed")));  // Closed at once.
  const io::FileDescriptor running = listening(path_of("running"));
  const std::string file = scratch.file("notes.sock");
  ASSERT_TRUE(claim_socket(path_of("box")).has_value());
  EXPECT_FALSE(std::filesystem::exists(path_of("killed")));
  EXPECT_TRUE(std::filesystem::exists(path_of("running")));
  EXPECT_EQ(probe(path_of("running")), SocketState::kAnswers);
  EXPECT_TRUE(std::filesystem::exists(file));  // No socket, so not ours.
}

TEST(SocketPlace, FilesOfAnotherKindAreRefusedAndKept) {
  const testing::ScratchDirectory scratch;
  const std::string file = scratch.path() / "file.sock", link = scratch.path() / "link.sock";
  std::ofstream(file) << "precious";
  std::filesystem::create_symlink(scratch.path() / "nothing", link);
  for (const std::string& path : {file, link}) {
    const auto claim = claim_socket(path);
    ASSERT_FALSE(claim.has_value());
    EXPECT_THAT(claim.error().text, HasSubstr("a file that is not a socket has this name"));
  }
  EXPECT_EQ(std::filesystem::file_size(file), 8U);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST(SocketPlace, FindsServersAndAsksForANameIfThereAreSeveral) {
  const testing::ScratchDirectory scratch;
  const std::vector<std::string> folders{scratch.path() / "missing", scratch.path()};
  EXPECT_THAT(choose_server(*find_servers(folders), "").error().text,
              HasSubstr("no server of this machine"));
  static_cast<void>(scratch.file("notes.txt"));
  static_cast<void>(listening(socket_path(scratch.path(), "ended")));  // Closed at once.
  const io::FileDescriptor b = listening(socket_path(scratch.path(), "b"));
  auto servers = *find_servers(folders);
  ASSERT_EQ(servers.size(), 1U);
  EXPECT_EQ(choose_server(servers, "")->name, "b");

  const io::FileDescriptor a = listening(socket_path(scratch.path(), "a"));
  servers = *find_servers(folders);
  ASSERT_EQ(servers.size(), 2U);
  EXPECT_EQ(choose_server(servers, "b")->path, socket_path(scratch.path(), "b"));
  EXPECT_THAT(choose_server(servers, "").error().text,
              HasSubstr("2 servers are running; give --name with one of: a, b"));
  EXPECT_THAT(choose_server(servers, "c").error().text,
              HasSubstr("--name c: no such server; running: a, b"));
}

TEST(SocketPlace, MissingPermissionNamesTheRemedy) {
  const auto chosen = choose_server(
      {{.name = "a", .path = "/run/a.sock", .state = SocketState::kNoPermission}}, "");
  ASSERT_FALSE(chosen.has_value());
  EXPECT_THAT(chosen.error().text, HasSubstr("/run/a.sock: permission denied"));
}

TEST(SocketPlace, LackOfDescriptorsIsAnErrorAndNotAMissingServer) {
  if (testing::kIsSanitized) GTEST_SKIP() << "UBSan opens descriptors of its own";
  const testing::ScratchDirectory scratch;
  const std::string folder = scratch.path();
  const auto listener = listening(socket_path(folder, "b"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const SocketState state = probe(socket_path(folder, "b"));
  const int cause = errno;
  const auto found = find_servers({folder});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(state, SocketState::kUnknown);
  EXPECT_EQ(cause, EMFILE);
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().text, HasSubstr("Too many open files"));
  EXPECT_THAT(found.error().text, HasSubstr("ulimit -n"));
  EXPECT_EQ((*find_servers({folder})).size(), 1U);
}

}  // namespace
}  // namespace tributary::server
