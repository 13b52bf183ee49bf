// SPDX-License-Identifier: Apache-2.0
/// @file
/// Network namespaces for tests of frame ports: two of them, joined by a veth pair. Needs root and
/// the ip command; elsewhere the tests skip themselves with the reason.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace tributary::system_test {

/// While it exists, this thread and processes that it starts are in a network namespace.
class Inside {
 public:
  explicit Inside(const std::string& network);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  int outside_;
};

/// Runs a shell command. @return whether it succeeded.
bool run(const std::string& command);

/// Two network namespaces joined by a veth pair that carries 4200 bytes. Each end is called "wire".
/// The kernel of theirs_ has 10.77.0.2/24.
class VethTest : public ::testing::Test {
 protected:
  VethTest();
  ~VethTest() override;
  void SetUp() override;

  const std::string ours_;
  const std::string theirs_;
};

/// Expects exact sums of 50 blocks from a server on our end, without the kernel's IP, for two
/// Trio-ML sources with kernel sockets on the other end.
/// @param port The server's `--port`, with the address 10.77.0.1.
void expect_trio_ml_sums(const std::string& ours, const std::string& theirs,
                         const std::string& port, uint16_t gradients);

}  // namespace tributary::system_test
