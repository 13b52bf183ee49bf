// SPDX-License-Identifier: Apache-2.0
/// @file
/// Notices that an interface in use goes down, comes back, or ceases to exist.
///
/// Model:   look() asks the kernel; call it about once a second. A socket stays bound to the
///          interface that it was opened on: a later one with the same name is another interface.
/// Threads: One.
/// Errors:  An interface about which the kernel does not answer counts as gone.
/// Tests:   tests/system/inline_test.cc
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/file_descriptor.h"

namespace tributary::io {

class LinkWatch {
 public:
  enum class State : uint8_t { kUp, kDown, kGone };
  struct Change {
    std::string interface;
    State state;
    std::string text;  ///< The state and the remedy, for people; empty for kUp.
  };

  /// @param interfaces Their names. They are up.
  explicit LinkWatch(const std::vector<std::string>& interfaces);

  /// Returns the interfaces whose state differs from the one before.
  [[nodiscard]] std::vector<Change> look();

 private:
  struct Watched {
    std::string name;
    unsigned index;
    State state = State::kUp;
  };
  [[nodiscard]] State state_of(const Watched& watched) const;

  FileDescriptor socket_;  ///< For questions to the kernel.
  std::vector<Watched> watched_;
};

}  // namespace tributary::io
