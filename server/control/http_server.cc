// SPDX-License-Identifier: Apache-2.0
#include "server/control/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "io/file_descriptor.h"
#include "server/control/socket_place.h"

namespace tributary::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 128;
/// httplib ignores the port of a Unix socket, but requires one.
constexpr int kNoPort = 80;

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
    return wait_for(POLLIN) ? ::recv(socket_, bytes, size, MSG_DONTWAIT) : -1;
  }
  ssize_t write(const char* bytes, size_t size) override {
    return wait_for(POLLOUT) ? ::send(socket_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return socket_; }

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
};

/// A fixed number of threads and a bounded queue. enqueue() waits while the queue is full.
class BoundedPool : public httplib::TaskQueue {
 public:
  BoundedPool() {
    for (uint32_t i = 0; i < kThreads; i++) threads_.emplace_back([this] { work(); });
  }

  void enqueue(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return tasks_.size() < kQueueMax; });
    tasks_.push_back(std::move(task));
    has_task_.notify_one();
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    has_task_.notify_all();
    for (std::thread& thread : threads_) thread.join();
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
  std::vector<std::thread> threads_;
};

void fill(httplib::Response& response, const Reply& reply) {
  response.status = reply.status;
  if (!reply.allow.empty()) response.set_header("Allow", reply.allow);
  response.set_content(reply.body, reply.type);
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
    new_task_queue = [] { return new BoundedPool; };
    set_address_family(AF_UNIX);
    // Linux makes the file with the socket's mode, so that it is never open to others.
    set_socket_options([](socket_t socket) { fchmod(socket, S_IRUSR | S_IWUSR); });
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
    stop();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> start(const std::string& path) {
    const auto claim = claim_socket(path);
    if (!claim) return tl::unexpected(claim.error());
    // httplib listens with room for five callers; the second call raises it.
    if (!bind_to_port(path, kNoPort) || ::listen(svr_sock_, kBacklog) != 0) {
      return failure(
          fmt::format("control socket {}: cannot listen there; to fix: check the "
                      "folder's permissions and that the path has at most 107 characters",
                      path));
    }
    thread_ = std::thread([this] {
      listen_after_bind();
      ended_.store(true);
    });
    // stop() has no effect before the loop runs.
    while (!is_running() && !ended_.load()) std::this_thread::yield();
    return {};
  }

 private:
  Reply answer(const httplib::Request& request) const {
    try {
      const size_t question_mark = request.target.find('?');
      return handler_({.method = request.method,
                       .path = request.path,
                       .query = question_mark == std::string::npos
                                    ? std::string()
                                    : request.target.substr(question_mark + 1),
                       .body = request.body});
    } catch (const std::exception& exception) {
      return error_reply(500, exception.what());
    }
  }

  bool process_and_close_socket(socket_t socket) override {
    const io::FileDescriptor closer(socket);
    DeadlineStream stream(socket, stop_event_.get());
    bool closed = false;
    return process_request(stream, /*close_connection=*/true, closed, nullptr);
  }

  const io::FileDescriptor stop_event_;
  const HttpServer::Handler handler_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
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

HttpServer::~HttpServer() { unlink(path_.c_str()); }

}  // namespace tributary::control
