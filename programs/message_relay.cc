// SPDX-License-Identifier: Apache-2.0
#include "programs/message_relay.h"

#include <cstring>
#include <utility>

namespace tributary::programs {

MessageRelay::MessageRelay(CaptureOutput::MessageHandler handler, size_t room_bytes)
    : handler_(std::move(handler)), room_bytes_(room_bytes) {
  filling_.reserve(room_bytes);
  taken_.reserve(room_bytes);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void MessageRelay::push(std::span<const std::byte> message) {
  const auto size = static_cast<uint32_t>(message.size());
  std::unique_lock lock(mutex_);
  const auto has_room = [&] { return room_bytes_ - filling_.size() >= sizeof size + size; };
  if (waits_for_room_ && sizeof size + size <= room_bytes_) emptied_.wait(lock, has_room);
  if (!has_room()) {
    lost_++;
    return;
  }
  const bool was_empty = filling_.empty();
  const auto* const size_bytes = reinterpret_cast<const std::byte*>(&size);
  filling_.insert(filling_.end(), size_bytes, size_bytes + sizeof size);
  filling_.insert(filling_.end(), message.begin(), message.end());
  if (was_empty) filled_.notify_one();
}

void MessageRelay::begin_end() {
  const std::lock_guard lock(mutex_);
  waits_for_room_ = true;
}

void MessageRelay::finish() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

uint64_t MessageRelay::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

std::optional<Error> MessageRelay::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void MessageRelay::run(const std::stop_token& stop) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      // Returns false only after a stop, with nothing left.
      if (!filled_.wait(lock, stop, [this] { return !filling_.empty(); })) return;
      std::swap(filling_, taken_);
    }
    emptied_.notify_all();
    pass_on();
    taken_.clear();
  }
}

void MessageRelay::pass_on() {
  bool has_failed = problem().has_value();
  for (size_t at = 0; at < taken_.size();) {
    uint32_t size;
    std::memcpy(&size, taken_.data() + at, sizeof size);
    at += sizeof size;
    const std::span message = std::span(taken_).subspan(at, size);
    at += size;
    const Result<void> done = has_failed ? Result<void>() : handler_(message);
    if (done && !has_failed) continue;
    const std::lock_guard lock(mutex_);
    if (!done) problem_ = done.error();
    has_failed = true;
    lost_++;
  }
}

}  // namespace tributary::programs
