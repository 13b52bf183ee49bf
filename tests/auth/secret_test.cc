// SPDX-License-Identifier: Apache-2.0
// Method: each source of a secret, then every refusal. No text may contain the secret.
#include "auth/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/scratch_directory.h"

namespace tributary::auth {
namespace {

constexpr const char* kSecret = "correct horse battery staple";

class Secret : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv(kSecretVariable);
    unsetenv("CREDENTIALS_DIRECTORY");
  }
  void TearDown() override { SetUp(); }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  testing::ScratchDirectory folder_;
};

TEST_F(Secret, ComesFromAFile) {
  const auto found = find_secret(Mode::kHeader, write("s", std::string(kSecret) + "\n"));
  ASSERT_TRUE(found.has_value()) << found.error().text;
  EXPECT_EQ(found->mode, Mode::kHeader);
  EXPECT_EQ(found->key, *key_of_secret(kSecret));  // Without the end of the line.
}

TEST_F(Secret, ComesFromTheEnvironment) {
  setenv(kSecretVariable, kSecret, 1);
  const auto found = find_secret(Mode::kHeader, "");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key, *key_of_secret(kSecret));
}

TEST_F(Secret, ComesFromASystemdCredential) {
  write(kSecretCredential, kSecret);
  setenv("CREDENTIALS_DIRECTORY", folder_.path().c_str(), 1);
  const auto found = find_secret(Mode::kHeader, "");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key, *key_of_secret(kSecret));
}

TEST_F(Secret, OfACredentialMayHaveAnAclButNoOtherReaders) {
  setenv("CREDENTIALS_DIRECTORY", folder_.path().c_str(), 1);
  write(kSecretCredential, kSecret, 0440);
  EXPECT_TRUE(find_secret(Mode::kHeader, "").has_value());
  write(kSecretCredential, kSecret, 0444);
  EXPECT_FALSE(find_secret(Mode::kHeader, "").has_value());
}

// The unit provides "none" if the operator has written no file.
TEST_F(Secret, MissingCredentialNamesTheFileOfTheService) {
  setenv("CREDENTIALS_DIRECTORY", folder_.path().c_str(), 1);
  const std::string missing =
      "auth=header needs the job's secret; give secret_file, set TRIBUTARY_SECRET, or as a service "
      "write /etc/tributary/NAME.secret and restart";
  EXPECT_EQ(find_secret(Mode::kHeader, "").error().text, missing);
  const std::string path = write(kSecretCredential, "none", 0640);
  EXPECT_EQ(find_secret(Mode::kHeader, "").error().text, missing);
  write(kSecretCredential, "none\n", 0640);  // By hand.
  EXPECT_EQ(find_secret(Mode::kHeader, "").error().text,
            "the secret (of a service: /etc/tributary/NAME.secret) in " + path +
                ": the secret has 4 bytes; it needs at least 16: head -c 32 /dev/urandom | base64 "
                "makes one");
  write(kSecretCredential, "", 0640);
  EXPECT_EQ(find_secret(Mode::kHeader, "").error().text,
            "the secret (of a service: /etc/tributary/NAME.secret) in " + path +
                ": is empty or cannot be read");
}

TEST_F(Secret, IsNotNeededWithoutAuthentication) {
  setenv(kSecretVariable, kSecret, 1);
  const auto found = find_secret(Mode::kNone, "");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key, Key256{});
}

TEST_F(Secret, RefusesWhatIsNoSecret) {
  const auto text_of = [](const Result<JobAuth>& found) {
    return found ? std::string("accepted") : found.error().text;
  };
  EXPECT_NE(text_of(find_secret(Mode::kHeader, "")).find(kSecretVariable), std::string::npos);
  EXPECT_NE(text_of(find_secret(Mode::kHeader, "/nonexistent")).find("/nonexistent"),
            std::string::npos);
  EXPECT_NE(text_of(find_secret(Mode::kHeader, write("short", "12345"))).find("at least 16"),
            std::string::npos);
  EXPECT_NE(
      text_of(find_secret(Mode::kHeader, write("long", std::string(5000, 'x')))).find("more than"),
      std::string::npos);
  const std::string open = text_of(find_secret(Mode::kHeader, write("open", kSecret, 0644)));
  EXPECT_NE(open.find("chmod 600"), std::string::npos);
  EXPECT_EQ(open.find(kSecret), std::string::npos);
  EXPECT_NE(text_of(find_secret(Mode::kNone, write("s", kSecret))).find("auth=none"),
            std::string::npos);
}

TEST(SecretKey, DependsOnEveryByte) {
  EXPECT_NE(*key_of_secret("0123456789abcdef"), *key_of_secret("0123456789abcdeg"));
  EXPECT_FALSE(key_of_secret("0123456789abcde").has_value());
  EXPECT_FALSE(key_of_secret(" \n\t             \n").has_value());
}

}  // namespace
}  // namespace tributary::auth
