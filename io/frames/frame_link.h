// SPDX-License-Identifier: Apache-2.0
/// @file
/// The network side of a queue that deals in frames: what came in goes up as a UDP payload, is
/// answered, or is counted; what goes out finds its next hop and its headers.
///
/// Model:   A host with one IP address on one or several devices (a server whose workers each have
///          a wire of their own). It does no I/O and reads no clock: frames and time in, frames and
///          deadlines out, so the tests run it without a device.
/// Shapes:  A neighbour is learned from every datagram that is delivered and from answers to own
///          questions, never from requests, so a flood of ARP requests fills nothing. One that has
///          been silent for kReachableFor is asked again, by itself, while packets go on to it;
///          without an answer it is forgotten and counted.
/// Threads: A FrameLink belongs to its queue's thread; the NeighbourTable is shared by all of a
///          port's.
/// Errors:  Every frame is one FrameOutcome; a destination without a next hop is refused and asked
///          for.
/// Memory:  Taken in the constructor, but for a new neighbour's entry in the bounded table.
/// Tests:   tests/io/frames/frame_link_test.cc
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/endpoint.h"
#include "base/prng.h"
#include "base/result.h"
#include "base/time.h"
#include "io/counter_cells.h"
#include "io/frames/link_answers.h"
#include "io/frames/link_inspect.h"
#include "io/frames/neighbour_table.h"

namespace tributary::io {

/// Answers of its own that a queue sends in a second, and at once. Enough for every host of a large
/// network to ask anew each second; what comes beyond is a flood. Assumed.
inline constexpr uint32_t kAnswersPerSecond = 4096;
inline constexpr uint32_t kAnswersAtOnce = 256;

/// How often an address is asked for. RFC 1122 §2.3.2.1 recommends once a second at most; a join is
/// repeated every 50 ms and should not wait so long for one lost question. Assumed.
inline constexpr Duration kQuestionEvery = milliseconds(250);
/// Questions before an address is given up, kQuestionEvery after the last; the next packet to it
/// starts again. Source: RFC 4861 §10 has three; one more for a wire that is just coming up.
inline constexpr uint32_t kQuestionsEach = 4;

/// Until a new membership is reported a second time, in case the first was lost, and the longest
/// that the answer to a query waits (RFC 2236 §8.10 has 10 s for both; here the shorter, so that a
/// lost report costs one second and not ten).
inline constexpr Duration kReportAgainAfter = seconds(1);
/// Groups of a port.
inline constexpr uint32_t kGroupsMax = 16;

/// What is the same for all queues of a port.
struct FrameLinkConfig {
  Endpoint local;             ///< The port's address and UDP port, no wildcard.
  uint32_t udp_ports = 1;     ///< As in LinkIdentity.
  uint32_t prefix_bits = 24;  ///< Of the network on the wire: up to 32, or 128 for IPv6.
  std::optional<Endpoint> gateway;
  /// The only one whose datagrams are taken, but for those to groups; unset: everybody's.
  std::optional<Endpoint> peer;
  struct Device {
    MacAddress mac{};
    bool trusts_udp_checksum = false;  ///< As in LinkIdentity.
  };
  std::vector<Device> devices;  ///< At least one.
};

/// A received frame's end.
struct Arrival {
  FrameOutcome outcome = FrameOutcome::kCount;
  uint32_t offset = 0;  ///< For kDelivered: the payload in the frame …
  uint32_t size = 0;    ///< … and its bytes.
  Endpoint source;
  uint32_t reply_bytes = 0;  ///< A frame to be sent back by the same device; 0 for none.
};

/// A frame that the link sends on its own account.
struct OwnFrame {
  uint32_t bytes = 0;  ///< 0: there is none.
  uint32_t device = 0;
};

class FrameLink {
 public:
  FrameLink(const FrameLinkConfig& config, NeighbourTable& neighbours);

  /// Takes a frame of `device`. @param reply Where an answer is written; as large as a frame.
  Arrival receive(std::span<const std::byte> frame, uint32_t device, VerifiedByHardware verified,
                  Instant now, std::span<std::byte> reply);
  /// Counts a frame that was refused before it could be looked at.
  void count(FrameOutcome outcome) { outcomes_[static_cast<size_t>(outcome)].add(1); }

  /// The next hop to `destination`. Without one it is asked for: see next_frame().
  [[nodiscard]] std::optional<Hop> route(const Endpoint& destination, Instant now);

  /// The next frame of its own that is due, written to `out` (kLinkFrameBytesMax).
  OwnFrame next_frame(std::span<std::byte> out, Instant now);
  /// Nothing is due before.
  [[nodiscard]] Instant next_due() const { return next_due_; }

  /// Receives what is sent to the group on its port, and tells routers and switches so. Refuses a
  /// group that is none, of the other family, or one too many.
  Result<void> join(const Endpoint& group, Instant now);
  /// Tells them good-bye: next_frame() has the messages.
  void leave_all(Instant now);

  /// Addresses of an outgoing datagram.
  [[nodiscard]] UdpFrameAddresses addresses(const Hop& hop, const Endpoint& destination) const {
    return {.source_mac = config_.devices[hop.device].mac,
            .destination_mac = hop.mac,
            .source = config_.local,
            .destination = destination};
  }

  /// How many frames had each outcome. Any thread.
  [[nodiscard]] uint64_t counted(FrameOutcome outcome) const {
    return outcomes_[static_cast<size_t>(outcome)].value();
  }
  /// Datagrams that could not be sent because nobody has said where their destination is.
  [[nodiscard]] uint64_t unresolved() const { return unresolved_.value(); }
  /// Addresses that nobody has answered for.
  [[nodiscard]] uint64_t unanswered() const { return unanswered_.value(); }
  /// Neighbours that were known, fell silent, did not answer and are forgotten.
  [[nodiscard]] uint64_t neighbours_lost() const { return neighbours_lost_.value(); }

 private:
  /// An address that is being asked for, or a group that is to be reported, on every device.
  struct Errand {
    Endpoint address;
    Instant due_at = Instant::never();
    uint32_t times_left = 0;  ///< 0: the place is free. A question's last is to give it up.
    uint32_t device = 0;      ///< The next device to send it on.
  };
  struct Group {
    Endpoint address;
    Errand report;
  };

  Arrival deliver(std::span<const std::byte> frame, uint32_t device, const InspectedFrame& found,
                  Instant now);
  [[nodiscard]] LinkIdentity identity(uint32_t device) const;
  Arrival answer(std::span<const std::byte> frame, uint32_t device, const InspectedFrame& found,
                 Instant now, std::span<std::byte> reply);
  Arrival answer_arp_packet(std::span<const std::byte> frame, uint32_t device,
                            const InspectedFrame& found, Instant now, std::span<std::byte> reply);
  Arrival answer_icmpv6(std::span<const std::byte> frame, uint32_t device,
                        const InspectedFrame& found, Instant now, std::span<std::byte> reply);
  FrameOutcome take_news(const NeighbourNews& news, uint32_t device, Instant now);
  FrameOutcome take_query(const Endpoint& group, Instant now);
  [[nodiscard]] bool is_on_wire(const Endpoint& address) const;
  void ask(const Endpoint& address, Instant now);
  bool may_answer(Instant now);
  void end_question(Errand& question);
  void give_up(Errand& question, bool was_known);
  OwnFrame question_due(std::span<std::byte> out, Instant now);
  OwnFrame report_due(std::span<std::byte> out, Instant now);
  void step(Errand& errand, Instant next_at);
  static void end_round(Errand& errand, Instant next_at);
  void find_next_due();

  const FrameLinkConfig config_;
  NeighbourTable& table_;
  NeighbourCache neighbours_;
  std::array<Errand, kQuestionsMax> questions_{};
  std::vector<Group> groups_;
  std::vector<Endpoint> group_addresses_;  ///< Shape [groups_], as LinkIdentity wants them.
  bool leaving_ = false;
  Instant next_due_ = Instant::never();
  Prng prng_;  ///< Spreads the reports of many hosts; seeded by the MAC address.

  uint32_t answers_left_ = kAnswersAtOnce;
  Instant answers_counted_at_;

  std::array<CounterCell, static_cast<size_t>(FrameOutcome::kCount)> outcomes_{};
  CounterCell unresolved_;
  CounterCell unanswered_;
  CounterCell neighbours_lost_;
};

}  // namespace tributary::io
