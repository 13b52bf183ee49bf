// SPDX-License-Identifier: Apache-2.0
#include "server/control/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "io/file_descriptor.h"
#include "server/control/listener.h"
#include "server/control/socket_place.h"

namespace tributary::control {
namespace {

using Clock = std::chrono::steady_clock;

/// A connection with one deadline for the whole exchange. It also ends when the server stops.
/// httplib's own time-outs restart with each byte.
class DeadlineStream : public httplib::Stream {
 public:
  /// @param stop Readable when the server stops.
  DeadlineStream(int socket, int stop)
      : socket_(socket), stop_(stop), deadline_(Clock::now() + kRequestWithin) {}

  [[nodiscard]] bool is_readable() const override { return wait_for(POLLIN); }
  [[nodiscard]] bool is_writable() const override { return wait_for(POLLOUT); }
  ssize_t read(char* bytes, size_t size) override {
    size = std::min(size, left_bytes_);
    if (size == 0 || !wait_for(POLLIN)) return -1;
    const ssize_t got = ::recv(socket_, bytes, size, MSG_DONTWAIT);
    if (got > 0) left_bytes_ -= static_cast<size_t>(got);
    return got;
  }
  ssize_t write(const char* bytes, size_t size) override {
    return wait_for(POLLOUT) ? ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return socket_; }
  /// Ends the answer and reads what remains of the request: closing a socket with unread bytes
  /// would reset the connection, and the client would lose the answer.
  void finish() {
    ::shutdown(socket_, SHUT_WR);
    std::array<char, 4096> rest;
    while (read(rest.data(), rest.size()) > 0) {
    }
  }

 private:
  [[nodiscard]] bool wait_for(int16_t event) const {
    // Rounded up, so that the deadline has passed when poll() ends.
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    std::array<pollfd, 2> files{{{socket_, event, 0}, {stop_, POLLIN, 0}}};
    if (left <= 0 || poll(files.data(), files.size(), static_cast<int>(left)) <= 0) return false;
    return files[1].revents == 0;
  }

  const int socket_;
  const int stop_;
  const Clock::time_point deadline_;
  size_t left_bytes_ = kRequestBytesMax;
};

/// httplib matches headers with std::regex, which recurses: a header of its largest size needs more
/// than the 2 MB that glibc gives a thread if RLIMIT_STACK is unlimited. Measured: 4 MB are enough
/// without sanitizers.
constexpr size_t kStackBytes = 64 << 20;

/// A fixed number of threads and a bounded queue. enqueue() waits while the queue is full.
class BoundedPool {
 public:
  BoundedPool() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    const auto run = [](void* pool) -> void* {
      static_cast<BoundedPool*>(pool)->work();
      return nullptr;
    };
    for (pthread_t& thread : threads_) {
      TRIB_ASSERT(pthread_create(&thread, &attributes, run, this) == 0);
    }
    pthread_attr_destroy(&attributes);
  }

  void enqueue(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return tasks_.size() < kQueueMax; });
    tasks_.push_back(std::move(task));
    has_task_.notify_one();
  }

  void shutdown() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    has_task_.notify_all();
    for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      has_task_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      has_room_.notify_one();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_task_;
  std::condition_variable has_room_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::array<pthread_t, kThreads> threads_{};
};

void fill(httplib::Response& response, const Reply& reply) {
  response.status = reply.status;
  response.set_content(reply.body, reply.type);
  for (const auto& [name, value] : reply.headers) response.set_header(name.c_str(), value);
}

bool may_have_body(const httplib::Request& request) {
  return request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
}

/// Returns the refusal of a body before it is read; nothing if it is acceptable.
std::optional<Reply> refuse_body(const httplib::Request& request) {
  if (request.target.size() > kTargetBytesMax) {
    return error_reply(414, fmt::format("the URL has {} bytes; allowed: at most {}",
                                        request.target.size(), kTargetBytesMax));
  }
  if (request.has_header("Transfer-Encoding")) {
    return error_reply(411, "a body needs Content-Length instead of Transfer-Encoding");
  }
  // A compressed body of a few bytes could fill the memory.
  if (request.has_header("Content-Encoding") ||
      request.get_header_value("Content-Type").starts_with("multipart/")) {
    return error_reply(415, "the body must be JSON, neither compressed nor in parts");
  }
  const auto size_bytes = request.get_header_value<uint64_t>("Content-Length");
  if (size_bytes <= kBodyBytesMax) return {};
  return error_reply(
      413, fmt::format("the body has {} bytes; allowed: at most {}", size_bytes, kBodyBytesMax));
}

/// Tells whether a body follows that must be read.
bool has_body(const httplib::Request& request) {
  return may_have_body(request) && request.get_header_value<uint64_t>("Content-Length") > 0;
}

}  // namespace

Reply error_reply(int status, const std::string& text) {
  // Text from a request may be no UTF-8; dump() would throw.
  return {.status = status,
          .body = nlohmann::json{{"error", text}}.dump(-1, ' ', false,
                                                       nlohmann::json::error_handler_t::replace) +
                  "\n"};
}

class HttpServer::Implementation : public httplib::Server {
 public:
  explicit Implementation(HttpServer::Handler handler)
      : stop_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), handler_(std::move(handler)) {
    // Answers before httplib reads a body, unless there is one to read. httplib would wait for the
    // end of the connection if a request without a body does not state its length.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const auto refusal = may_have_body(request) ? refuse_body(request) : std::nullopt;
      if (!refusal && has_body(request)) return HandlerResponse::Unhandled;
      fill(response, refusal ? *refusal : answer(request));
      return HandlerResponse::Handled;
    });
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response) {
      fill(response, answer(request));
    };
    Post(".*", with_body);
    Put(".*", with_body);
    Patch(".*", with_body);
    set_payload_max_length(kBodyBytesMax);
    set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (response.body.empty()) {
        fill(response, error_reply(response.status, "the request is no valid HTTP request"));
      }
    });
  }
  ~Implementation() override {
    const uint64_t one = 1;
    static_cast<void>(!::write(stop_event_.get(), &one, sizeof one));
    if (thread_.joinable()) thread_.join();
    pool_.shutdown();
  }

  Result<void> start(const std::string& path) {
    const auto claim = claim_socket(path);
    if (!claim) return tl::unexpected(claim.error());
    return serve(listen_on_path(path));
  }
  Result<void> start(const Endpoint& at) { return serve(listen_on_port(at)); }

 private:
  Result<void> serve(Result<io::FileDescriptor> listener) {
    if (!listener) return tl::unexpected(listener.error());
    listener_ = *std::move(listener);
    thread_ = std::thread([this] {
      accept_until(stop_event_.get(), listener_.get(), [this](int socket) {
        pool_.enqueue([this, socket] { serve_connection(socket); });
      });
    });
    return {};
  }

  Reply answer(const httplib::Request& request) const {
    try {
      const size_t question_mark = request.target.find('?');
      return handler_(
          {.method = request.method,
           .path = request.path,
           .query = question_mark == std::string::npos ? std::string()
                                                       : request.target.substr(question_mark + 1),
           .body = request.body,
           .host = request.get_header_value("Host"),
           .authorization = request.get_header_value("Authorization"),
           .cookie = request.get_header_value("Cookie"),
           .accept = request.get_header_value("Accept"),
           .token = request.has_param("token") ? std::optional(request.get_param_value("token"))
                                               : std::nullopt});
    } catch (const std::exception& exception) {
      return error_reply(500, exception.what());
    }
  }

  void serve_connection(int socket) {
    const io::FileDescriptor closer(socket);
    DeadlineStream stream(socket, stop_event_.get());
    bool closed = false;
    // A request for thousands of ranges would multiply the answer: answers are whole.
    static_cast<void>(process_request(stream, /*close_connection=*/true, closed,
                                      [](httplib::Request& request) { request.ranges.clear(); }));
    stream.finish();
  }

  const io::FileDescriptor stop_event_;
  const HttpServer::Handler handler_;
  io::FileDescriptor listener_;
  std::thread thread_;
  BoundedPool pool_;
};

HttpServer::HttpServer(std::string path, std::unique_ptr<Implementation> implementation)
    : path_(std::move(path)), implementation_(std::move(implementation)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& path, Handler handler) {
  auto implementation = std::make_unique<Implementation>(std::move(handler));
  if (const auto started = implementation->start(path); !started) {
    return tl::unexpected(started.error());
  }
  return std::unique_ptr<HttpServer>(new HttpServer(path, std::move(implementation)));
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Endpoint& at, Handler handler) {
  auto implementation = std::make_unique<Implementation>(std::move(handler));
  if (const auto started = implementation->start(at); !started) {
    return tl::unexpected(started.error());
  }
  return std::unique_ptr<HttpServer>(new HttpServer({}, std::move(implementation)));
}

HttpServer::~HttpServer() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace tributary::control
