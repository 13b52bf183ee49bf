// SPDX-License-Identifier: Apache-2.0
#include "io/local/background_close.h"

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace tributary::io {
namespace {

/// Sockets that are being closed. Relaxed everywhere: the number alone is wanted.
std::atomic<uint32_t> closing{0};

}  // namespace

uint32_t background_close_count() { return closing.load(std::memory_order_relaxed); }

void close_in_background(FileDescriptor socket) {
  closing.fetch_add(1, std::memory_order_relaxed);
  const auto close_and_count = [](FileDescriptor owned) {
    { const FileDescriptor last(std::move(owned)); }
    closing.fetch_sub(1, std::memory_order_relaxed);
  };
  try {
    std::thread(close_and_count, std::move(socket)).detach();
  } catch (const std::system_error&) {
    closing.fetch_sub(1, std::memory_order_relaxed);
  }
}

}  // namespace tributary::io
