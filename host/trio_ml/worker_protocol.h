// SPDX-License-Identifier: Apache-2.0
/// @file
/// A worker's side of Trio-ML as a sans-I/O state machine: packets and time in, packets and
/// deadlines out. Composes SessionJoin, StreamWindow, LossRepair, BlockCodec and SessionEnd.
///
/// Model:   docs/aggregation-protocol.md. The parts do not know each other; this class passes
///          plain values between them.
/// Threads: Owned by one thread.
/// Errors:  A Transfer ends with a Status and a text (host/all_reduce.h). Packets that are
///          malformed, foreign or of another session are counted and change nothing.
/// Memory:  See the parts.
/// Tests:   tests/host/trio_ml/, tests/lab/faults/
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "auth/session_seal.h"
#include "base/time.h"
#include "host/refusal_watch.h"
#include "host/silence_watch.h"
#include "host/tensor_protocol.h"
#include "host/trio_ml/begin_sampling.h"
#include "host/trio_ml/block_codec.h"
#include "host/trio_ml/loss_repair.h"
#include "host/trio_ml/permanent_stragglers.h"
#include "host/trio_ml/session_end.h"
#include "host/trio_ml/session_join.h"
#include "host/trio_ml/stream_window.h"
#include "host/worker_config.h"
#include "host/worker_counters.h"
#include "host/worker_event.h"
#include "recorder/writer.h"
#include "wire/trio_ml.h"

namespace tributary::host {

class WorkerProtocol final : public TensorProtocol {
 public:
  /// Starts to join. @param nonce Not 0; new for each process.
  WorkerProtocol(const CommunicatorConfig& config, uint64_t nonce, Instant now);

  void submit(Transfer& transfer, Instant now) override;
  /// Ends the session. The leaves are due until next_deadline() is never.
  void leave(Instant now) override;
  void fail(Status status, std::string text, uint32_t lost_aggregator) override {
    end({status, std::move(text), lost_aggregator});
  }

  [[nodiscard]] bool accepts_from(const Endpoint& from) const override {
    return from.is_same_peer(config_.server);
  }
  std::optional<Duration> on_packet(const Incoming& packet, Instant now) override {
    // An elided packet only has a head, and nothing behind the head is read.
    return on_packet({packet.stored.data(), packet.size_bytes}, now);
  }
  std::optional<Duration> on_packet(std::span<const std::byte> payload, Instant now);
  void on_refused(Instant now) override;
  void on_closed() override;
  void on_time(Instant now) override;
  [[nodiscard]] Outgoing next_packet(std::span<std::byte> out, Instant now) override;
  [[nodiscard]] Instant next_deadline() const override;

  [[nodiscard]] Phase phase() const override {
    if (end_.ended()) return Phase::kEnded;
    return join_.joined() ? Phase::kRunning : Phase::kJoining;
  }
  [[nodiscard]] Status status() const override { return end_.status(); }
  [[nodiscard]] const std::string& status_text() const override { return end_.text(); }
  [[nodiscard]] uint32_t lost_aggregator() const override { return end_.lost_aggregator(); }
  void hold(bool held) override { held_ = held; }
  void limit_window(uint32_t packets) override { stream_.limit(packets); }
  void gather_packets(uint32_t packets) override { stream_.gather(packets); }
  [[nodiscard]] bool has_new_packets() const override {
    return join_.joined() && !end_.ended() && stream_.can_send();
  }
  [[nodiscard]] bool idle() const override { return stream_.idle(); }
  [[nodiscard]] const CommunicatorCounters& counters() const override { return counters_; }

  [[nodiscard]] uint32_t packet_bytes_max() const override;
  [[nodiscard]] uint32_t gradients() const override { return join_.terms().gradients; }
  [[nodiscard]] uint32_t narrow_gradients() const override {
    return join_.terms().narrow_gradients;
  }
  [[nodiscard]] uint32_t window() const override { return join_.terms().window; }
  [[nodiscard]] uint32_t job_window() const override { return join_.terms().job_window; }
  [[nodiscard]] uint32_t channels() const override { return join_.terms().channels; }
  [[nodiscard]] Duration straggler_timeout() const override {
    return join_.terms().straggler_timeout;
  }
  [[nodiscard]] const Endpoint& group() const override { return join_.terms().group; }
  [[nodiscard]] uint64_t session() const override { return join_.terms().result_key; }
  [[nodiscard]] Progress progress() const override { return stream_.progress(); }
  [[nodiscard]] SourceSet permanent_stragglers() const override { return permanent_.ranks(); }
  [[nodiscard]] uint64_t nonce() const { return nonce_; }
  [[nodiscard]] wire::Reason refusal() const override { return join_.refusal(); }
  [[nodiscard]] const std::vector<Aggregator>& redirection() const override {
    return join_.redirection();
  }

 private:
  /// An idle worker sends a keep-alive this often. The aggregator's kSilentAfter is longer than
  /// three of these.
  static constexpr Duration kKeepAliveEvery = milliseconds(1000);
  /// A worker that waits runs every 100 ms or more often. A longer pause is its own, such as
  /// SIGSTOP.
  static constexpr Duration kOwnPause = milliseconds(1000);
  /// A worker reports its counts this often, if the aggregator takes them.
  static constexpr Duration kReportEvery = milliseconds(1000);
  /// A contribution that does not fit is withheld for this many straggler timeouts. A block ages
  /// out within two timeouts of its aggregator, and upper aggregators have longer ones. Assumed.
  static constexpr int64_t kWithheldTimeouts = 32;

  // worker_protocol.cc: received packets, and the session.
  [[nodiscard]] bool is_for_this_session(const wire::Message& message) const;
  [[nodiscard]] bool is_for_another_source(const wire::Message& message) const;
  [[nodiscard]] static bool is_unsealed_reset(const wire::Message& message);
  [[nodiscard]] bool opens(const wire::Message& message, std::span<const std::byte> payload,
                           Instant now);
  void on_join_reply(const wire::Message& message, Instant now);
  void begin_session(Instant now);
  std::optional<Duration> on_result(const wire::Message& message,
                                    std::span<const std::byte> payload, Instant now);
  Duration take_result(uint64_t position, const StreamWindow::Contents& contents,
                       const wire::Message& message, const std::byte* lanes, Instant now);
  void complete(Transfer& transfer);
  void on_have(const wire::Message& message, Instant now);
  void on_notice(const wire::Message& notice, Instant now);
  /// Returns when this worker ends, because nothing listens at the aggregator's port.
  [[nodiscard]] Instant refused_until() const;
  [[nodiscard]] Instant reset_until() const;
  /// Returns how long the aggregator may leave questions unanswered; not set: until the deadline.
  [[nodiscard]] std::optional<Duration> silent_limit() const;
  void note_question(Instant now);
  /// Returns when this worker ends, because the aggregator answers no question.
  [[nodiscard]] Instant silent_until() const;
  void check_aggregator(Instant now);
  void end_if_upper_is_lost(const wire::ControlBody& notice);
  void end(EndReason reason);
  void end_if(std::optional<EndReason> reason);

  // worker_report.cc: this worker's report on the others and on itself.
  void announce_wait(Instant now);
  /// Returns when to announce the silence of the aggregator, or else the wait of the oldest block;
  /// never if that was done. @pre A block is outstanding.
  [[nodiscard]] Instant announce_at() const;
  [[nodiscard]] Instant waited_since(uint64_t position) const;
  [[nodiscard]] Instant heard_or_resumed_at() const;
  /// Notes the time of a call of the driver.
  void begin_round(Instant now) {
    if (now - round_at_ > kOwnPause) resumed_at_ = now;
    round_at_ = now;
  }
  void record_stall(Instant now);
  /// Returns when the oldest block's wait is a stall; never if that is recorded, or nothing is.
  /// @pre A block is outstanding.
  [[nodiscard]] Instant stall_at() const;
  void announce_degraded(const Transfer& transfer);
  void announce_stragglers(const SourceSet& before);
  void note_begin(const Transfer& transfer, Instant now);
  [[nodiscard]] wire::WorkerReport report(Instant now) const;
  Outgoing write_report(std::span<std::byte> out, Instant now);

  /// Records that something happened to a position, if there is a recorder.
  void record(recorder::Kind kind, uint64_t position) {
    if (recorder_ == nullptr) return;
    recorder_->add(kind, config_.job_id, config_.rank, static_cast<uint32_t>(position), round_at_);
  }
  /// Records an event of the session, likewise.
  void record_change(recorder::Kind kind, uint8_t detail = 0);

  // worker_packets.cc: packets to send.
  Outgoing next_of_session(std::span<std::byte> out, Instant now);
  Outgoing write_contribution(uint64_t position, std::span<std::byte> out, Instant now);
  Outgoing write_probe(uint64_t position, std::span<std::byte> out, Instant now);
  /// True while a contribution that does not fit may be withheld. Without mitigation never.
  [[nodiscard]] bool may_withhold(uint64_t position, Instant now) const;
  Outgoing write_join(std::span<std::byte> out, Instant now);
  Outgoing write_leave(std::span<std::byte> out, Instant now);
  Outgoing write_control(const wire::Message& message, std::span<std::byte> out);
  void seal(const wire::MessageHead& message, std::span<std::byte> head,
            std::span<const std::byte> lanes);
  [[nodiscard]] wire::Message control(wire::MessageType type) const;
  [[nodiscard]] Endpoint server_for(uint32_t block_id) const;

  const CommunicatorConfig config_;  ///< `source` is set. The parts refer to it.
  const uint64_t nonce_;
  SessionJoin join_;
  StreamWindow stream_;
  LossRepair repair_;
  BlockCodec codec_;
  SessionEnd end_;
  auth::MemberEnd seals_;
  RefusalWatch refusals_;
  RefusalWatch resets_;  ///< Without a seal, which a worker with a secret does not believe at once.
  SilenceWatch silence_;            ///< Watches the limit silent_limit().
  SilenceWatch announced_silence_;  ///< Watches the limit kSilenceAnnouncedAfter.
  Instant resumed_at_;  ///< When this worker itself ran again after kOwnPause or longer.
  Instant silence_said_ = Instant::never();  ///< Begin of the silence that was announced.
  Instant sent_at_;                          ///< Last packet to the aggregator.
  Instant report_at_ = Instant::never();     ///< When the next report is due.
  BeginSampling begins_;
  uint32_t all_reduce_ = 0;  ///< The newest one that was submitted.
  uint32_t begun_ = 0;       ///< The all-reduce whose beginning the next report states; 0: none.
  WaitAnnouncer announcer_;
  bool held_ = false;  ///< See hold().
  PermanentStragglers permanent_;
  CommunicatorCounters counters_;
  recorder::Writer* const recorder_;  ///< Null: nothing is recorded.
  uint64_t stalled_ = UINT64_MAX;     ///< The position whose stall was recorded last.
  Instant round_at_;                  ///< The driver's last time, for the recorder.
};

}  // namespace tributary::host
