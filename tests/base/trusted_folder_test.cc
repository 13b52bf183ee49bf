// SPDX-License-Identifier: Apache-2.0
// Method: folders with each permission, links to them, files and missing paths.
#include "base/trusted_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/scratch_directory.h"

namespace tributary {
namespace {

TEST(TrustedFolder, NeitherGroupNorOthersMayWrite) {
  const testing::ScratchDirectory scratch;
  const std::string folder = scratch.path() / "f";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  for (const mode_t mode : {0700, 0755, 0750}) {
    ASSERT_EQ(::chmod(folder.c_str(), mode), 0);
    EXPECT_TRUE(is_trusted_folder(folder)) << mode;
  }
  for (const mode_t mode : {0775, 0757, 0777, 01777}) {  // The last one is that of /tmp.
    ASSERT_EQ(::chmod(folder.c_str(), mode), 0);
    EXPECT_FALSE(is_trusted_folder(folder)) << mode;
  }
}

TEST(TrustedFolder, FolderOfThisUserInATrustlessOneIsTrusted) {
  const testing::ScratchDirectory scratch;
  ASSERT_EQ(::chmod(scratch.path().c_str(), 01777), 0);
  const std::string folder = scratch.path() / "mine";
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0);
  EXPECT_TRUE(is_trusted_folder(folder));
}

TEST(TrustedFolder, LinkIsAsTrustedAsItsFolder) {
  const testing::ScratchDirectory scratch;
  const std::string folder = scratch.path() / "f";
  const std::string link = scratch.path() / "link";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  std::filesystem::create_symlink(folder, link);
  EXPECT_TRUE(is_trusted_folder(link));
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  EXPECT_FALSE(is_trusted_folder(link));
}

TEST(TrustedFolder, FolderOrLinkOfAnotherUserIsNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  const testing::ScratchDirectory scratch;
  const std::string folder = scratch.path() / "f";
  const std::string link = scratch.path() / "link";
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  std::filesystem::create_symlink(folder, link);
  ASSERT_EQ(::lchown(link.c_str(), 1234, 1234), 0);
  EXPECT_FALSE(is_trusted_folder(link));
  ASSERT_EQ(::chown(folder.c_str(), 1234, 1234), 0);
  EXPECT_FALSE(is_trusted_folder(folder));
}

TEST(TrustedFolder, OnlyFoldersAreTrusted) {
  const testing::ScratchDirectory scratch;
  EXPECT_FALSE(is_trusted_folder(scratch.file("file")));
  EXPECT_FALSE(is_trusted_folder(scratch.path() / "none"));
}

}  // namespace
}  // namespace tributary
