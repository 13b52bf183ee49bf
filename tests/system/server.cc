// SPDX-License-Identifier: Apache-2.0
#include "tests/system/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace tributary::system_test {

uint16_t free_port(io::Transport transport) {
  const auto port = io::free_port(transport);
  EXPECT_TRUE(port.has_value()) << port.error().text;
  return port.value_or(uint16_t{0});
}

Server::Server(const std::vector<std::string>& jobs, const std::vector<std::string>& more,
               const std::string& host)
    : host_(host) {
  for (const std::string& job : jobs) arguments_.insert(arguments_.end(), {"--job", job});
  arguments_.insert(arguments_.end(), more.begin(), more.end());
  // Another process may take the port between the search and the start.
  for (uint32_t attempt = 0; attempt < 5; attempt++) {
    port_ = free_port();
    json_path_ = scratch("serve_" + std::to_string(port_) + ".json");
    if (start()) return;
  }
  ADD_FAILURE() << "the server does not start: " << process_->errors();
}

std::string Server::address() const { return host_ + ":" + std::to_string(port_); }

bool Server::start() {
  std::vector<std::string> words{"serve", "--listen", address(), "--json", json_path_};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  process_ = std::make_unique<Process>(words);
  return process_->wait_for_line("ready");
}

void Server::kill() {
  process_->signal(SIGKILL);
  EXPECT_EQ(process_->wait_for_end(), 128 + SIGKILL);
}

void Server::start_again() { EXPECT_TRUE(start()) << process_->errors(); }

void Server::signal(int number) { process_->signal(number); }

bool Server::wait_for_error(const std::string& text) { return process_->wait_for_error(text); }

std::optional<int> Server::wait_for_end() { return process_->wait_for_end(); }

std::optional<int> Server::stop() {
  terminate();
  return wait_for_end();
}

nlohmann::json json_of(const std::string& path) {
  std::ifstream stream(path);
  return nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

nlohmann::json requested_stats(Process& process, const std::string& json_path) {
  // The server renames the file into place, which inotify reports. Adding the watch before the
  // signal makes sure that no event is missed.
  const int watch = inotify_init1(IN_CLOEXEC);
  const auto path = std::filesystem::path(json_path);
  inotify_add_watch(watch, path.parent_path().c_str(), IN_MOVED_TO);
  process.signal(SIGUSR1);
  const auto deadline = Clock::now() + kPatience;
  alignas(inotify_event) std::array<char, 4096> buffer;
  bool written = false;
  while (!written) {
    pollfd file{watch, POLLIN, 0};
    if (poll(&file, 1, milliseconds_until(deadline)) <= 0) break;
    const ssize_t size = read(watch, buffer.data(), buffer.size());
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      written |= event->len > 0 && path.filename() == event->name;
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
  close(watch);
  EXPECT_TRUE(written) << "no statistics after SIGUSR1";
  return json_of(json_path);
}

nlohmann::json Server::stats() { return requested_stats(*process_, json_path_); }

nlohmann::json Server::written_stats() const { return json_of(json_path_); }

void Server::wait_until_counted(const std::string& name, uint64_t value) {
  const auto deadline = Clock::now() + kPatience;
  uint64_t counted = 0;
  while (counted < value && Clock::now() < deadline && !::testing::Test::HasFailure()) {
    counted = stats()["counters"].value(name, uint64_t{0});
  }
  EXPECT_GE(counted, value) << name;
}

void Server::wait_until_resident_below(uint64_t bytes) {
  const auto deadline = Clock::now() + kPatience;
  while (resident_bytes() >= bytes && Clock::now() < deadline && !::testing::Test::HasFailure()) {
    static_cast<void>(stats());  // Waits for the server once.
  }
  EXPECT_LT(resident_bytes(), bytes);
}

}  // namespace tributary::system_test
