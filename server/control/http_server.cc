// SPDX-License-Identifier: Apache-2.0
#include "server/control/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/cpus.h"
#include "io/file_descriptor.h"
#include "server/control/listener.h"
#include "server/json_text.h"
#include "server/socket_place.h"

namespace tributary::control {
namespace {

/// A request that has arrived, and its answer.
class BytesStream : public httplib::Stream {
 public:
  explicit BytesStream(std::string request) : request_(std::move(request)) {}

  [[nodiscard]] bool is_readable() const override { return read_bytes_ < request_.size(); }
  [[nodiscard]] bool is_writable() const override { return true; }
  ssize_t read(char* bytes, size_t size) override {
    if (!is_readable()) return -1;
    const size_t got = request_.copy(bytes, size, read_bytes_);
    read_bytes_ += got;
    return static_cast<ssize_t>(got);
  }
  ssize_t write(const char* bytes, size_t size) override {
    answer_.append(bytes, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  [[nodiscard]] socket_t socket() const override { return INVALID_SOCKET; }
  [[nodiscard]] std::string take_answer() { return std::move(answer_); }

 private:
  const std::string request_;
  size_t read_bytes_ = 0;
  std::string answer_;
};

/// httplib matches headers with std::regex, which recurses: a header of its largest size needs more
/// than the 2 MB that glibc gives a thread if RLIMIT_STACK is unlimited. Measured: 4 MB are enough
/// without sanitizers.
constexpr size_t kStackBytes = 64 << 20;

/// A fixed number of threads. Each connection has at most one task, which bounds the queue.
class Pool {
 public:
  Pool() {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    const auto run = [](void* pool) -> void* {
      take_short_slices();
      static_cast<Pool*>(pool)->work();
      return nullptr;
    };
    for (pthread_t& thread : threads_) {
      TRIB_ASSERT(pthread_create(&thread, &attributes, run, this) == 0);
    }
    pthread_attr_destroy(&attributes);
  }

  void enqueue(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    has_task_.notify_one();
  }

  /// Ends the threads after their current tasks. Drops the tasks that wait.
  void shutdown() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      tasks_.clear();
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
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_task_;
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

/// Returns the refusal of a request that would need more memory than any useful one, or that a
/// proxy before this server may have read otherwise (RFC 9112 §3.2, §6.3).
std::optional<Reply> refuse_head(const httplib::Request& request) {
  if (request.target.size() > kTargetBytesMax) {
    return error_reply(414, fmt::format("the URL has {} bytes; allowed: at most {}",
                                        request.target.size(), kTargetBytesMax));
  }
  for (const char* name : {"Host", "Content-Length", "Authorization"}) {
    const size_t count = request.get_header_value_count(name);
    if (count <= 1) continue;
    return error_reply(400,
                       fmt::format("the header {} appears {} times; allowed: once", name, count));
  }
  return {};
}

/// Returns the refusal of a body before it is read; nothing if it is acceptable.
std::optional<Reply> refuse_body(const httplib::Request& request) {
  if (request.has_header("Transfer-Encoding")) {
    return error_reply(411, "a body needs Content-Length instead of Transfer-Encoding");
  }
  // A compressed body of a few bytes could fill the memory.
  if (request.has_header("Content-Encoding") ||
      request.get_header_value("Content-Type").starts_with("multipart/")) {
    return error_reply(415, "the body must be JSON, neither compressed nor in parts");
  }
  const std::string size = request.get_header_value("Content-Length");
  if (size.find_first_not_of("0123456789") != std::string::npos) {
    return error_reply(400, fmt::format("Content-Length: {} is not a whole number", size));
  }
  const auto size_bytes = request.get_header_value<uint64_t>("Content-Length");
  if (size_bytes <= kBodyBytesMax) return {};
  return error_reply(
      413, fmt::format("the body has {} bytes; allowed: at most {}", size, kBodyBytesMax));
}

/// Tells whether a body follows that must be read.
bool has_body(const httplib::Request& request) {
  return may_have_body(request) && request.get_header_value<uint64_t>("Content-Length") > 0;
}

}  // namespace

Reply error_reply(int status, const std::string& text) {
  return {.status = status, .body = server::json_text(nlohmann::json{{"error", text}}) + "\n"};
}

class HttpServer::Implementation : public httplib::Server {
 public:
  Implementation(HttpServer::Handler handler, ConnectionCounters* counters)
      : handler_(std::move(handler)), counters_(counters == nullptr ? own_counters_ : *counters) {
    // Answers before httplib reads a body, unless there is one to read. httplib would wait for the
    // end of the connection if a request without a body does not state its length.
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      auto refusal = refuse_head(request);
      if (!refusal && may_have_body(request)) refusal = refuse_body(request);
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
        fill(response, error_reply(response.status, "the request is not valid HTTP"));
      }
    });
  }
  ~Implementation() override {
    if (connections_ != nullptr) connections_->stop();
    pool_.shutdown();
  }

  Result<void> start(const std::string& path) {
    const auto claim = server::claim_socket(path);
    if (!claim) return tl::unexpected(claim.error());
    return serve(listen_on_path(path));
  }
  Result<void> start(const Endpoint& at) { return serve(listen_on_port(at)); }

 private:
  Result<void> serve(Result<io::FileDescriptor> listener) {
    if (!listener) return tl::unexpected(listener.error());
    connections_ = std::make_unique<Connections>(*std::move(listener), counters_);
    return connections_->start([this](uint64_t id, std::string request) {
      pool_.enqueue([this, id, request = std::move(request)]() mutable {
        connections_->answer(id, answer_bytes(std::move(request)));
      });
    });
  }

  Reply answer(const httplib::Request& request) const {
    try {
      const size_t question_mark = request.target.find('?');
      auto [host, path] = place_of(request);
      return handler_(
          {.method = request.method,
           .path = std::move(path),
           .query = question_mark == std::string::npos ? std::string()
                                                       : request.target.substr(question_mark + 1),
           .body = request.body,
           .host = std::move(host),
           .authorization = request.get_header_value("Authorization"),
           .cookie = request.get_header_value("Cookie"),
           .accept = request.get_header_value("Accept"),
           .token = request.has_param("token") ? std::optional(request.get_param_value("token"))
                                               : std::nullopt});
    } catch (const std::exception& exception) {
      return error_reply(500, exception.what());
    }
  }

  /// Returns host and path. A target in absolute form, as for a proxy, has both (RFC 9112 §3.2.2).
  static std::pair<std::string, std::string> place_of(const httplib::Request& request) {
    constexpr std::string_view kScheme = "http://";
    const std::string& target = request.path;
    if (!target.starts_with(kScheme)) return {request.get_header_value("Host"), target};
    const size_t slash = std::min(target.find('/', kScheme.size()), target.size());
    std::string path = target.substr(slash);
    if (path.empty()) path = "/";
    return {target.substr(kScheme.size(), slash - kScheme.size()), std::move(path)};
  }

  std::string answer_bytes(std::string request) {
    BytesStream stream(std::move(request));
    bool closed = false;
    // A request for thousands of ranges would multiply the answer: answers are whole.
    static_cast<void>(process_request(stream, /*close_connection=*/true, closed,
                                      [](httplib::Request& parsed) { parsed.ranges.clear(); }));
    return stream.take_answer();
  }

  const HttpServer::Handler handler_;
  ConnectionCounters own_counters_{};
  ConnectionCounters& counters_;
  Pool pool_;
  std::unique_ptr<Connections> connections_;  ///< Calls pool_.
};

HttpServer::HttpServer(std::string path, std::unique_ptr<Implementation> implementation)
    : path_(std::move(path)), implementation_(std::move(implementation)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const std::string& path, Handler handler) {
  auto implementation = std::make_unique<Implementation>(std::move(handler), /*counters=*/nullptr);
  if (const auto started = implementation->start(path); !started) {
    return tl::unexpected(started.error());
  }
  return std::unique_ptr<HttpServer>(new HttpServer(path, std::move(implementation)));
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(const Endpoint& at, Handler handler,
                                                      ConnectionCounters* counters) {
  auto implementation = std::make_unique<Implementation>(std::move(handler), counters);
  if (const auto started = implementation->start(at); !started) {
    return tl::unexpected(started.error());
  }
  return std::unique_ptr<HttpServer>(new HttpServer({}, std::move(implementation)));
}

HttpServer::~HttpServer() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace tributary::control
