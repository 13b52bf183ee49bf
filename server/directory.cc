// SPDX-License-Identifier: Apache-2.0
#include "server/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stop_token>
#include <tuple>
#include <utility>

#include "auth/session_seal.h"
#include "base/clock.h"
#include "io/udp/resolve.h"
#include "io/udp/socket_address.h"
#include "plan/assignment.h"
#include "plan/plan_digest.h"
#include "wire/trio_ml.h"

namespace tributary::server {

using wire::MessageType;
using wire::Reason;

namespace {

/// Questions whose answers may be in time.
constexpr auto kQuestionsOpen = static_cast<size_t>(kAnswersWithin.ticks() / kAskEvery.ticks());

plan::TensorSize tensor_size(const DirectoryConfig& config) {
  return {.bytes = static_cast<double>(config.tensor_bytes), .wire_ratio = config.wire_ratio};
}

/// Refuses machines whose plan has more aggregators than a worker accepts, or that have no plan.
Result<void> check_plan(const DirectoryConfig& config) {
  const auto plan = plan::assign(config.machines, tensor_size(config));
  if (!plan) return tl::unexpected(plan.error());
  const auto aggregators =
      std::ranges::count_if(plan->weights, [](uint32_t weight) { return weight > 0; });
  if (aggregators <= wire::kAggregatorsMax) return {};
  return failure(
      fmt::format("--workers, --servers: {} machines run an aggregator; allowed: up to {}; to fix: "
                  "give fewer machines, or let only --servers aggregate (--colocated off)",
                  aggregators, wire::kAggregatorsMax));
}

/// An aggregator and its address.
struct NamedAddress {
  std::string name;
  Endpoint address;
};

/// Refuses an address that two aggregators share, and one that only some ranks would reach: a
/// loopback address beside others. Debian gives a machine's own name 127.0.1.1.
Result<void> check_addresses(const std::vector<NamedAddress>& aggregators) {
  for (size_t i = 0; i < aggregators.size(); i++) {
    for (size_t before = 0; before < i; before++) {
      const auto& [name, address] = aggregators[before];
      const auto& [other_name, other] = aggregators[i];
      if (address.is_same_peer(other)) {
        return failure(fmt::format("--workers, --servers: {} and {} have the same address {}", name,
                                   other_name, address.to_string()));
      }
      if (io::is_loopback(address) == io::is_loopback(other)) continue;
      const NamedAddress& local = io::is_loopback(address) ? aggregators[before] : aggregators[i];
      return failure(fmt::format(
          "--workers, --servers: {} has the address {}, which ranks on other machines cannot "
          "reach; allowed: addresses that every rank reaches",
          local.name, local.address.to_string()));
    }
  }
  return {};
}

}  // namespace

/// Watches the aggregators of one job, and publishes its plans.
class Directory::Watch {
 public:
  struct Peer {
    size_t machine = 0;
    std::string name;
    Endpoint address;
    std::array<uint64_t, kQuestionsOpen> nonces{};  ///< Nonces of the last questions; 0: answered.
    Instant heard_at = Instant::never();
    bool answers = false;
    uint32_t weight = 0;
    bool has_room = true;       ///< Has a place in a list of wire::kAggregatorsMax.
    bool has_answered = false;  ///< Once true, stays true.
    std::string fault = "no answer yet";
    std::string unsealed_fault;  ///< In the last answer without a seal since the last believed one.
  };

  Watch(const DirectoryConfig& config, const ServedJob& job, std::vector<Peer> peers, Instant now)
      : config_(config),
        job_(job),
        seals_(job.config.auth, job.config.id, /*lane=*/0),
        peers_(std::move(peers)),
        began_at_(now) {}

  void ask(engine::PortQueue& queue) {
    for (Peer& peer : peers_) {
      std::rotate(peer.nonces.begin(), peer.nonces.end() - 1, peer.nonces.end());
      peer.nonces.front() = auth::random_u64();
      std::array<std::byte, wire::kControlMessageBytes> bytes;
      const uint32_t size = write_question(peer.nonces.front(), bytes);
      queue.transmit(std::array{engine::TxPacket{bytes.data(), size, peer.address}});
    }
  }

  void on_packet(const engine::Packet& packet, Instant now) {
    const auto peer = std::find_if(peers_.begin(), peers_.end(), [&packet](const Peer& each) {
      return each.address.is_same_peer(packet.source);
    });
    if (peer == peers_.end()) return;
    wire::Message message;
    const auto head =
        packet.bytes().first(std::min<size_t>(packet.size, wire::kControlMessageBytes));
    if (decode_message(head, packet.size, message) != wire::DecodeStatus::kOk ||
        !message.header.extended || message.header.job_id != job_.config.id ||
        !is_join_reply(message.extension.type)) {
      return;
    }
    uint64_t* const nonce = find_nonce(*peer, message.extension.key);
    if (nonce == nullptr) return;
    const std::string fault = fault_in(message);
    if (!is_vouched(message, packet.bytes())) {
      // Anybody who reads the traffic can forge it, so the question stays open.
      peer->unsealed_fault = fault.empty() ? "its answer has no valid seal" : fault;
      if (!peer->answers) peer->fault = peer->unsealed_fault;
      return;
    }
    *nonce = 0;
    peer->has_answered = true;
    peer->heard_at = fault.empty() ? now : Instant::never();
    peer->fault = fault;
    peer->unsealed_fault.clear();
  }

  /// Makes a new plan if an aggregator has come or gone.
  void update(Instant now) {
    bool changed = false;
    bool all_known = true;
    for (Peer& peer : peers_) {
      const bool is_heard = peer.heard_at != Instant::never();
      const bool answers = is_heard && now - peer.heard_at <= kAnswersWithin;
      if (peer.answers && !answers && peer.fault.empty()) {
        peer.fault = peer.unsealed_fault.empty()
                         ? fmt::format("no answer for {:.1f} s", in_seconds(now - peer.heard_at))
                         : peer.unsealed_fault;
      }
      changed = changed || answers != peer.answers;
      all_known = all_known && peer.has_answered;
      peer.answers = answers;
    }
    // The first plan waits until every aggregator had time to answer.
    if (changes_ == 0 && !all_known && now - began_at_ < kAnswersWithin) return;
    if (changed || changes_ == 0) publish();
  }

  [[nodiscard]] DirectoryJob state() const {
    DirectoryJob state{.job_id = job_.config.id,
                       .changes = changes_,
                       .predicted_s = predicted_s_,
                       .aggregators = {}};
    for (const Peer& peer : peers_) {
      state.aggregators.push_back({.name = peer.name,
                                   .answers = peer.answers,
                                   .weight = peer.answers ? peer.weight : 0,
                                   .fault = peer.answers ? "" : peer.fault});
    }
    return state;
  }

 private:
  /// Returns the open question with an answer's nonce; null: there is none. Answers may come later
  /// than the next question.
  static uint64_t* find_nonce(Peer& peer, uint64_t nonce) {
    const auto found = std::find(peer.nonces.begin(), peer.nonces.end(), nonce);
    return nonce == 0 || found == peer.nonces.end() ? nullptr : &*found;
  }
  /// Writes a join without a cookie, of source 0. @return its bytes.
  uint32_t write_question(uint64_t nonce, std::span<std::byte> out) {
    wire::Message message;
    message.header.job_id = job_.config.id;
    message.header.extended = true;
    message.extension.type = MessageType::kJoin;
    message.extension.key = nonce;
    message.body.value = static_cast<uint32_t>(job_.config.auth.mode);
    if (seals_.is_sealed()) message.extension.flags = wire::seal_flag(auth::Mode::kHeader);
    const uint32_t size = encode_message(message, out.data());
    if (seals_.is_sealed()) seals_.seal_join(out.first(size));
    return size;
  }

  /// Returns whether the answer has the seal that the job needs.
  [[nodiscard]] bool is_vouched(const wire::Message& message,
                                std::span<const std::byte> bytes) const {
    if (!seals_.is_sealed()) return true;
    return wire::seal_mode(message.extension.flags) == auth::Mode::kHeader &&
           seals_.opens_join_reply(bytes.first(message.head_bytes));
  }

  /// Returns the reason why this answer does not show an aggregator of the job; empty: it does.
  [[nodiscard]] std::string fault_in(const wire::Message& message) const {
    const bool is_refusal = message.extension.type == MessageType::kRefusal;
    const Reason reason = is_refusal ? message.body.reason : Reason::kNone;
    if (reason == Reason::kAuthentication) return "it has another secret or mode";
    if (reason == Reason::kUnknownJob) return fmt::format("it has no job {}", job_.config.id);
    if (reason == Reason::kServerStopped) return "it was stopped";
    return {};
  }

  /// Returns the job's machines that answer, and for each its peer; null: it has no aggregator.
  std::pair<std::vector<plan::Machine>, std::vector<Peer*>> machines_now() {
    std::vector<plan::Machine> machines;
    std::vector<Peer*> at;
    for (size_t i = 0; i < config_.machines.size(); i++) {
      plan::Machine machine = config_.machines[i];
      const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                     [i](const Peer& each) { return each.machine == i; });
      machine.aggregator = peer != peers_.end() && peer->answers && peer->has_room;
      if (!machine.aggregator && !machine.worker) continue;
      machines.push_back(machine);
      at.push_back(machine.aggregator ? &*peer : nullptr);
    }
    return {machines, at};
  }

  /// Leaves a place in the list to the peers of the largest weights, if more have a share than a
  /// worker accepts. @return whether some peer lost its place.
  bool keep_heaviest(const std::vector<uint32_t>& weights, const std::vector<Peer*>& at) {
    std::vector<size_t> sharing;  // Indices in `at`.
    for (size_t i = 0; i < at.size(); i++) {
      if (weights[i] > 0) sharing.push_back(i);
    }
    if (sharing.size() <= wire::kAggregatorsMax) return false;
    std::ranges::sort(sharing, [&weights](size_t a, size_t b) {
      return std::tuple(weights[b], a) < std::tuple(weights[a], b);
    });
    for (Peer& peer : peers_) peer.has_room = false;
    for (uint32_t i = 0; i < wire::kAggregatorsMax; i++) at[sharing[i]]->has_room = true;
    return true;
  }

  void publish() {
    changes_++;
    for (Peer& peer : peers_) {
      peer.weight = 0;
      peer.has_room = true;
    }
    auto [machines, at] = machines_now();
    auto plan = plan::assign(machines, tensor_size(config_));
    if (plan && keep_heaviest(plan->weights, at)) {
      std::tie(machines, at) = machines_now();
      plan = plan::assign(machines, tensor_size(config_));
    }
    if (!plan) {  // No aggregator answers, so joins wait.
      predicted_s_ = 0;
      job_.session->set_aggregators(nullptr);
      return;
    }
    auto table = std::make_shared<trio_ml::AggregatorTable>();
    std::vector<std::string> names;
    for (size_t i = 0; i < machines.size(); i++) {
      if (at[i] == nullptr) continue;
      at[i]->weight = plan->weights[i];
      if (plan->weights[i] == 0) continue;
      table->entries.push_back({at[i]->address, plan->weights[i]});
      names.push_back(at[i]->address.to_string());
    }
    std::vector<plan::WeightedAggregator> list;
    for (size_t i = 0; i < names.size(); i++) list.push_back({names[i], table->entries[i].weight});
    table->digest = plan::plan_digest(list);
    predicted_s_ = plan->predicted_s;
    job_.session->set_aggregators(std::move(table));
  }

  const DirectoryConfig config_;
  const ServedJob job_;
  auth::MemberEnd seals_;
  std::vector<Peer> peers_;
  const Instant began_at_;
  uint64_t changes_ = 0;
  double predicted_s_ = 0;
};

Directory::Directory(std::unique_ptr<io::UdpPort> port, std::vector<std::unique_ptr<Watch>> watches)
    : port_(std::move(port)), watches_(std::move(watches)) {}

Directory::~Directory() { stop(); }

void Directory::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  port_->queue(0).wake();
  thread_.join();
}

Result<std::unique_ptr<Directory>> Directory::start(const DirectoryConfig& config,
                                                    const std::vector<ServedJob>& jobs) {
  if (const auto checked = check_plan(config); !checked) return tl::unexpected(checked.error());
  std::vector<Watch::Peer> peers;
  std::vector<NamedAddress> addresses;
  for (size_t i = 0; i < config.machines.size(); i++) {
    if (!config.machines[i].aggregator) continue;
    const auto address = io::resolve(config.endpoints[i], wire::kTrioMlPort);
    if (!address) return tl::unexpected(address.error());
    addresses.push_back({config.endpoints[i], *address});
    Watch::Peer peer;
    peer.machine = i;
    peer.name = config.endpoints[i];
    peer.address = *address;
    peers.push_back(std::move(peer));
  }
  if (const auto checked = check_addresses(addresses); !checked) {
    return tl::unexpected(checked.error());
  }
  auto port = io::UdpPort::open(io::UdpPortConfig{});
  if (!port) return tl::unexpected(port.error());
  const Instant now = monotonic_now();
  std::vector<std::unique_ptr<Watch>> watches;
  for (const ServedJob& job : jobs) {
    watches.push_back(std::make_unique<Watch>(config, job, peers, now));
  }
  std::unique_ptr<Directory> directory(new Directory(*std::move(port), std::move(watches)));
  directory->thread_ =
      std::jthread([self = directory.get()](const std::stop_token& stop) { self->run(stop); });
  return directory;
}

void Directory::run(const std::stop_token& stop) {
  Instant ask_at = monotonic_now();
  while (!stop.stop_requested()) {
    const Instant now = monotonic_now();
    {
      const std::lock_guard lock(mutex_);
      receive(now);
      if (now >= ask_at) {
        for (const auto& watch : watches_) watch->ask(port_->queue(0));
        ask_at = now + kAskEvery;
      }
      for (const auto& watch : watches_) watch->update(now);
    }
    port_->queue(0).wait(std::max(ask_at - monotonic_now(), Duration()));
  }
}

void Directory::receive(Instant now) {
  std::array<engine::Packet, engine::kBurstPackets> burst;
  const uint32_t count = port_->queue(0).receive(burst);
  for (uint32_t i = 0; i < count; i++) {
    for (const auto& watch : watches_) watch->on_packet(burst[i], now);
  }
}

std::vector<DirectoryJob> Directory::state() const {
  const std::lock_guard lock(mutex_);
  std::vector<DirectoryJob> states;
  for (const auto& watch : watches_) states.push_back(watch->state());
  return states;
}

}  // namespace tributary::server
