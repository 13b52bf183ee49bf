// SPDX-License-Identifier: Apache-2.0
// Method: folders and sockets in a scratch directory: trusted and untrusted, live and stale.
#include "server/socket_place.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

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

// Every user who can read the folder can lock it.
TEST(SocketPlace, ALockOnTheFolderDelaysNobody) {
  const testing::ScratchDirectory scratch;
  const io::FileDescriptor folder(open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(flock(folder.get(), LOCK_EX), 0);
  const auto began = std::chrono::steady_clock::now();
  const auto claim = claim_socket(socket_path(scratch.path(), "box"));
  ASSERT_TRUE(claim.has_value()) << claim.error().text;
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(4));
  struct stat status {};
  ASSERT_EQ(stat((scratch.path() / ".lock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(SocketPlace, AFileThatAKilledServerLeftIsTakenOver) {
  const testing::ScratchDirectory scratch;
  const std::string left = scratch.file(".lock", "x");
  EXPECT_TRUE(claim_socket(socket_path(scratch.path(), "box")).has_value());
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST(SocketPlace, TheLockIsNoLink) {
  const testing::ScratchDirectory scratch;
  std::filesystem::create_symlink(scratch.file("precious", "x"), scratch.path() / ".lock");
  const auto claim = claim_socket(socket_path(scratch.path(), "box"));
  ASSERT_FALSE(claim.has_value());
  EXPECT_THAT(claim.error().text, HasSubstr("/.lock"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "precious"));
}

TEST(SocketPlace, ServersThatStartAtOnceTakeTurns) {
  constexpr uint32_t kThreads = 8, kTurns = 50;
  const testing::ScratchDirectory scratch;
  std::atomic<int> holders = 0;
  std::atomic<uint32_t> overlaps = 0, claims = 0;
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < kThreads; i++) {
      threads.emplace_back([&, i] {
        const std::string path = socket_path(scratch.path(), std::to_string(i));
        for (uint32_t turn = 0; turn < kTurns; turn++) {
          const auto claim = claim_socket(path);
          if (!claim) continue;
          claims++;
          if (holders.fetch_add(1) != 0) overlaps++;
          std::this_thread::yield();
          holders.fetch_sub(1);
        }
      });
    }
  }
  EXPECT_EQ(overlaps, 0U);
  EXPECT_GT(claims, 0U);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
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
