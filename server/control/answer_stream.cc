// SPDX-License-Identifier: Apache-2.0
#include "server/control/answer_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tributary::control {

using std::chrono::milliseconds;

bool AnswerStream::is_readable() const {
  pollfd file{socket_, POLLIN, 0};
  return begin_ < end_ || poll(&file, 1, 0) == 1;
}

bool AnswerStream::is_writable() const {
  pollfd file{socket_, POLLOUT, 0};
  return poll(&file, 1, 0) == 1;
}

bool AnswerStream::wait_for(int16_t event) {
  const auto silent_at = std::chrono::steady_clock::now() + silence_;
  const auto until = std::min(silent_at, deadline_);
  while (true) {
    const auto left =
        std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd file{socket_, event, 0};
    const int ready = left <= 0 ? 0 : poll(&file, 1, static_cast<int>(left));
    if (ready == 1) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (left <= 0) {
      fault_ = AnswerFault::kTimedOut;
      return false;
    }
  }
}

bool AnswerStream::count_line(char byte) {
  line_bytes_ = byte == '\n' ? 0 : line_bytes_ + 1;
  if (!head_ended_) head_bytes_++;
  if (line_bytes_ <= kAnswerLineBytesMax && head_bytes_ <= kAnswerHeadBytesMax) return true;
  fault_ = AnswerFault::kHeadTooLarge;
  return false;
}

ssize_t AnswerStream::read(char* bytes, size_t size) {
  if (begin_ == end_) {
    if (!wait_for(POLLIN)) return -1;
    const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got <= 0) return got;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  if (size == 1 && !count_line(buffer_[begin_])) return -1;
  if (size > 1) line_bytes_ = 0;
  const size_t taken = std::min(size, end_ - begin_);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), taken, bytes);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t AnswerStream::write(const char* bytes, size_t size) {
  if (!wait_for(POLLOUT)) return -1;
  return send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

httplib::Result AnswerClient::exchange(httplib::Request request) {
  std::string body;
  request.response_handler = [this](const httplib::Response&) {
    head_ended_ = true;
    return true;
  };
  // Without this, httplib reserves the memory that the answer's Content-Length claims.
  request.content_receiver = [&](const char* bytes, size_t size, uint64_t, uint64_t) {
    if (size > limits_.body_bytes_max - body.size()) {
      fault_ = AnswerFault::kBodyTooLarge;
      return false;
    }
    body.append(bytes, size);
    return true;
  };
  set_decompress(false);  // A few bytes could fill the memory.
  httplib::Result reply = send(request);
  if (reply) reply->body = std::move(body);
  return reply;
}

bool AnswerClient::process_socket(const Socket& socket,
                                  std::function<bool(httplib::Stream&)> callback) {
  fault_ = AnswerFault::kNone;
  head_ended_ = false;
  AnswerStream stream(socket.sock, limits_, head_ended_, fault_);
  return callback(stream);
}

}  // namespace tributary::control
