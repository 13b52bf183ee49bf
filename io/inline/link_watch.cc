// SPDX-License-Identifier: Apache-2.0
#include "io/inline/link_watch.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace tributary::io {
namespace {

std::string text_of(const std::string& name, LinkWatch::State state) {
  switch (state) {
    case LinkWatch::State::kUp:
      return "";
    case LinkWatch::State::kDown:
      return fmt::format("{} has no link; to fix: ip link set dev {} up, and check its cable", name,
                         name);
    case LinkWatch::State::kGone:
      break;
  }
  return fmt::format(
      "the interface {} that was opened is gone; to fix: make it again, and restart this program",
      name);
}

}  // namespace

LinkWatch::LinkWatch(const std::vector<std::string>& interfaces)
    : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  for (const std::string& name : interfaces) {
    watched_.push_back({.name = name, .index = ::if_nametoindex(name.c_str())});
  }
}

LinkWatch::State LinkWatch::state_of(const Watched& watched) const {
  if (watched.index == 0 || ::if_nametoindex(watched.name.c_str()) != watched.index) {
    return State::kGone;
  }
  ifreq request{};
  watched.name.copy(request.ifr_name, IF_NAMESIZE - 1);
  if (::ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0) return State::kGone;
  constexpr int kUpAndLinked = IFF_UP | IFF_RUNNING;
  return (request.ifr_flags & kUpAndLinked) == kUpAndLinked ? State::kUp : State::kDown;
}

std::vector<LinkWatch::Change> LinkWatch::look() {
  std::vector<Change> changes;
  for (Watched& watched : watched_) {
    const State state = state_of(watched);
    if (state == watched.state) continue;
    watched.state = state;
    changes.push_back({watched.name, state, text_of(watched.name, state)});
  }
  return changes;
}

}  // namespace tributary::io
