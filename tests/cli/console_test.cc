// SPDX-License-Identifier: Apache-2.0
// Method: streams on /dev/full and /dev/null, which fail and succeed as a full and an empty disk.
#include "cli/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tributary::cli {
namespace {

using ::testing::HasSubstr;

struct Close {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using Stream = std::unique_ptr<std::FILE, Close>;

Stream open(const char* path) { return Stream(std::fopen(path, "w")); }

/// Ends `output` with this exit code. @return the new exit code, and the message.
std::pair<int, std::string> end(std::FILE* output, int exit_code) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const errors = open_memstream(&text, &size);
  const int code = end_output(exit_code, output, errors);
  std::fclose(errors);
  const std::string message(text, size);
  std::free(text);
  return {code, message};
}

TEST(Console, TextGoesToStandardErrorWhileAResultHasStandardOutput) {
  EXPECT_EQ(text_output(), stdout);
  reserve_standard_output();
  EXPECT_EQ(text_output(), stderr);
  release_standard_output();
  EXPECT_EQ(text_output(), stdout);
}

TEST(Console, GoodOutputKeepsTheExitCode) {
  const Stream output = open("/dev/null");
  print_to(output.get(), "{} lines\n", 3);
  EXPECT_EQ(end(output.get(), 0), (std::pair<int, std::string>(0, "")));
  EXPECT_EQ(end(output.get(), 3), (std::pair<int, std::string>(3, "")));
}

TEST(Console, FullDiskFailsTheCommandAtItsEnd) {
  const Stream output = open("/dev/full");
  print_to(output.get(), "{}", "a line that stays in the buffer\n");
  const auto [code, message] = end(output.get(), 0);
  EXPECT_EQ(code, 1);
  EXPECT_EQ(message, "tributary: standard output cannot be written: No space left on device\n");
}

TEST(Console, FailureInTheMiddleIsKeptAndNothingThrows) {
  const Stream output = open("/dev/full");
  print_to(output.get(), "{}", std::string(1 << 20, 'x'));
  std::fflush(output.get());
  const auto [code, message] = end(output.get(), 0);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(message, HasSubstr("tributary: standard output "));
  EXPECT_EQ(end(output.get(), 130).first, 130);
  print_to(stderr, "{}", "");  // An empty text is not a failure.
}

}  // namespace
}  // namespace tributary::cli
