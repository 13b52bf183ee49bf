// SPDX-License-Identifier: Apache-2.0
/// @file
/// The network layer of a queue that receives and sends frames. It delivers, answers or counts each
/// received frame, and finds the next hop and the headers of each sent packet.
///
/// Model:   A host with one IP address on one or several devices (for example a server whose
///          workers each have a wire of their own). It does no I/O and reads no clock, so the tests
///          need no device.
/// Threads: A FrameLink belongs to its queue's thread. All queues of a port share one
///          NeighbourTable.
/// Errors:  Each frame has one FrameOutcome. route() refuses a destination without a next hop.
/// Memory:  The constructor takes all but the entries of the bounded neighbour table.
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

/// Limits on a queue's own answers: per second, and at once. Each host of a large network may ask
/// once a second; more is a flood. Assumed.
inline constexpr uint32_t kAnswersPerSecond = 4096;
inline constexpr uint32_t kAnswersAtOnce = 256;

/// Interval between questions for an address. RFC 1122 §2.3.2.1 recommends at most one a second. A
/// worker repeats its join every 50 ms, so one lost question should not cost a second. Assumed.
inline constexpr Duration kQuestionEvery = milliseconds(250);
/// Number of questions for an address. The last one fails after kQuestionEvery without an answer.
/// The next packet to the address starts over. Source: RFC 4861 §10 has three; one more for a wire
/// that comes up.
inline constexpr uint32_t kQuestionsPerAddress = 4;

/// Delay before a new membership is reported a second time, in case the first report was lost. Also
/// the longest delay of an answer to a query. RFC 2236 §8.10 has 10 s for both; the shorter delay
/// makes a lost report cost one second instead of ten.
inline constexpr Duration kReportAgainAfter = seconds(1);
/// Largest number of groups of a port.
inline constexpr uint32_t kGroupsMax = 16;

/// The settings that all queues of a port share.
struct FrameLinkConfig {
  Endpoint local;             ///< The port's address and UDP port; not a wildcard.
  uint32_t udp_ports = 1;     ///< See LinkIdentity.
  uint32_t prefix_bits = 24;  ///< Prefix length of the network: up to 32, or 128 for IPv6.
  std::optional<Endpoint> gateway;
  /// If set, unicast datagrams from anyone else are refused. Datagrams to groups are not affected.
  std::optional<Endpoint> peer;
  /// Accepts an IPv4 header checksum of 0, and does not verify UDP checksums: for senders that
  /// leave both to a network card that does not compute them (the published SwitchML client).
  bool lax_checksums = false;
  struct Device {
    MacAddress mac{};
    bool trusts_udp_checksum = false;  ///< See LinkIdentity.
  };
  std::vector<Device> devices;  ///< At least one.
};

/// Returns true if `address` is in the port's network, so that frames go to its own MAC address.
[[nodiscard]] bool is_on_wire(const FrameLinkConfig& config, const Endpoint& address);

/// Pins the neighbour's MAC address (low 48 bits) in the table. Does nothing if the address is
/// behind a router, or if `mac` is not the address of one host.
void pin_neighbour(NeighbourTable& table, const FrameLinkConfig& config, const Endpoint& address,
                   uint64_t mac);
/// Returns the MAC address as a number of 48 bits.
[[nodiscard]] uint64_t number_of(const MacAddress& mac);

/// The result of receiving a frame.
struct Arrival {
  FrameOutcome outcome = FrameOutcome::kCount;
  uint32_t offset = 0;  ///< For kDelivered: offset of the payload in the frame.
  uint32_t size = 0;    ///< For kDelivered: bytes of the payload.
  Endpoint source;
  uint32_t reply_bytes = 0;  ///< Bytes of a frame to send back by the same device; 0 for none.
};

/// A frame that the link itself sends.
struct OwnFrame {
  uint32_t bytes = 0;  ///< 0 if there is none.
  uint32_t device = 0;
};

/// The link learns a neighbour from each datagram that it delivers and from each answer to its own
/// questions. It never learns from requests, so a flood of ARP requests fills nothing. If a
/// neighbour is silent for kReachableFor, the link asks that neighbour directly, and packets still
/// go to it. If the neighbour does not answer, the link forgets it and counts it.
class FrameLink {
 public:
  FrameLink(const FrameLinkConfig& config, NeighbourTable& neighbours);

  /// Processes a frame of `device`. @param reply Receives an answer; as large as a frame.
  Arrival receive(std::span<const std::byte> frame, uint32_t device, VerifiedByHardware verified,
                  Instant now, std::span<std::byte> reply);
  /// Counts a frame that was refused before receive() could inspect it.
  void count(FrameOutcome outcome) { outcomes_[static_cast<size_t>(outcome)].add(1); }

  /// Returns the next hop to `destination`. If it is unknown, next_frame() will ask for it.
  [[nodiscard]] std::optional<Hop> route(const Endpoint& destination, Instant now);

  /// Writes the link's next due frame to `out` (kLinkFrameBytesMax bytes).
  OwnFrame next_frame(std::span<std::byte> out, Instant now);
  /// Returns the earliest time at which a frame is due.
  [[nodiscard]] Instant next_due() const { return next_due_; }

  /// Joins `group`: the link receives datagrams to the group on the group's port, and reports the
  /// membership to routers and switches. Refuses an address that is not multicast or has the other
  /// family, and more than kGroupsMax groups.
  Result<void> join(const Endpoint& group, Instant now);
  /// Reports the end of all memberships; next_frame() returns the messages.
  void leave_all(Instant now);

  /// Returns the addresses of an outgoing datagram.
  [[nodiscard]] UdpFrameAddresses addresses(const Hop& hop, const Endpoint& destination) const {
    return {.source_mac = config_.devices[hop.device].mac,
            .destination_mac = hop.mac,
            .source = config_.local,
            .destination = destination};
  }

  /// Returns the number of frames with this outcome. Any thread may call it.
  [[nodiscard]] uint64_t counted(FrameOutcome outcome) const {
    return outcomes_[static_cast<size_t>(outcome)].value();
  }
  /// Calls the visitor with every counter of the link. Any thread may call it.
  void visit_counters(const engine::PortQueue::CounterVisitor& visit) const;
  /// Returns the number of datagrams that were not sent because their next hop is unknown.
  [[nodiscard]] uint64_t unresolved() const { return unresolved_.value(); }
  /// Returns the number of addresses for which no host answered.
  [[nodiscard]] uint64_t unanswered() const { return unanswered_.value(); }
  /// Returns the number of known neighbours that fell silent, did not answer and were forgotten.
  [[nodiscard]] uint64_t neighbours_lost() const { return neighbours_lost_.value(); }

 private:
  /// An address to ask for, or a group to report, on every device.
  struct SendTask {
    Endpoint address;
    Instant due_at = Instant::never();
    uint32_t times_left = 0;  ///< 0 if the slot is free. At 1, a question fails.
    uint32_t device = 0;      ///< The next device to send it on.
  };
  struct Group {
    Endpoint address;
    SendTask report;
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
  FrameOutcome learn_answer(const NeighbourAddress& neighbour, uint32_t device, Instant now);
  FrameOutcome take_query(const Endpoint& group, Instant now);
  void ask(const Endpoint& address, Instant now);
  bool take_reply_token(Instant now);
  void end_question(SendTask& question);
  void fail_question(SendTask& question, bool was_known);
  OwnFrame question_due(std::span<std::byte> out, Instant now);
  OwnFrame report_due(std::span<std::byte> out, Instant now);
  void step(SendTask& task, Instant next_at);
  static void end_round(SendTask& task, Instant next_at);
  void find_next_due();

  const FrameLinkConfig config_;
  NeighbourTable& table_;
  NeighbourCache neighbours_;
  std::array<SendTask, kQuestionsMax> questions_{};
  std::vector<Group> groups_;
  std::vector<Endpoint> group_addresses_;  ///< Shape [groups_]; LinkIdentity points to it.
  bool leaving_ = false;
  Instant next_due_ = Instant::never();
  Prng prng_;  ///< Spreads the reports of many hosts; seeded with the MAC address.

  uint32_t answers_left_ = kAnswersAtOnce;
  Instant answers_counted_at_;

  std::array<CounterCell, static_cast<size_t>(FrameOutcome::kCount)> outcomes_{};
  CounterCell unresolved_;
  CounterCell unanswered_;
  CounterCell neighbours_lost_;
};

}  // namespace tributary::io
