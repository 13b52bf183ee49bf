// SPDX-License-Identifier: Apache-2.0
// The part of WorkerProtocol that chooses and writes the packets to send.
#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "host/formats/number_format.h"
#include "host/trio_ml/tensor_terms.h"
#include "host/trio_ml/worker_protocol.h"

namespace tributary::host {

using wire::Message;
using wire::MessageType;

namespace {

/// The extension's flags for values that do not fit.
uint8_t flags_of(Fit fit) {
  switch (fit) {
    case Fit::kFits:
      return 0;
    case Fit::kImprecise:
      return TRIB_MUTANT(kImpreciseUnsaid) ? 0 : wire::kFlagImprecise;
    case Fit::kOverflows:
      return wire::kFlagOverflow;
    case Fit::kNotFinite:
      return wire::kFlagNotFinite;
  }
  return 0;
}

/// Returns the place of the config's own aggregator in the job's list, from 1 on; 0: it is the only
/// one.
uint32_t own_place(const CommunicatorConfig& config) {
  const auto own = std::ranges::find(config.aggregators, config.server, &Aggregator::address);
  if (config.aggregators.size() < 2 || own == config.aggregators.end()) return 0;
  return static_cast<uint32_t>(own - config.aggregators.begin()) + 1;
}

}  // namespace

// --- The next packet ---

Outgoing WorkerProtocol::next_packet(std::span<std::byte> out, Instant now) {
  TRIB_ASSERT(out.size() >= packet_bytes_max());
  Outgoing packet;
  if (end_.ended()) {
    if (report_at_ <= now && join_.joined()) {
      packet = write_report(out, now);
    } else if (end_.leave_due(now)) {
      packet = write_leave(out, now);
    }
  } else if (join_.joined()) {
    packet = next_of_session(out, now);
  } else if (join_.request_due(now)) {
    packet = write_join(out, now);
  }
  if (packet.size_bytes > 0) {
    sent_at_ = now;
    counters_.packets_sent++;
  }
  return packet;
}

/// A report comes first, then repairs, new positions, and a keep-alive if there is nothing else to
/// send.
Outgoing WorkerProtocol::next_of_session(std::span<std::byte> out, Instant now) {
  if (now >= report_at_) [[unlikely]]
    return write_report(out, now);
  if (repair_.has_requests()) {
    if (const auto request = repair_.take_request(stream_.base(), stream_.next())) {
      return request->data_wanted ? write_contribution(request->position, out, now)
                                  : write_probe(request->position, out, now);
    }
  }
  // Postponed gradients belong to blocks that have begun, so nothing holds them back.
  if (stream_.can_send() && (!held_ || stream_.has_ready())) {
    const uint64_t position = stream_.take_next(now);
    repair_.begin(position);
    return stream_.contents(position).transfer->receive_only
               ? write_probe(position, out, now)
               : write_contribution(position, out, now);
  }
  if (TRIB_MUTANT(kNoKeepAlive) && now - sent_at_ >= kKeepAliveEvery) sent_at_ = now;
  if (now - sent_at_ < kKeepAliveEvery) return {};
  return write_control(control(MessageType::kKeepAlive), out);
}

// --- Contributions and probes ---

bool WorkerProtocol::may_withhold(uint64_t position, Instant now) const {
  return now - stream_.first_sent_at(position) < straggler_timeout() * kWithheldTimeouts;
}

/// Writes a probe instead if the exponent was agreed without this rank and its values do not fit.
/// With mitigation the block then completes without this rank, with an exact sum of the others. If
/// no result comes within kWithheldTimeouts, the worker contributes. The contribution is then too
/// late, or the others have left; only in that case every rank gets the overflow.
Outgoing WorkerProtocol::write_contribution(uint64_t position, std::span<std::byte> out,
                                            Instant now) {
  const StreamWindow::Contents contents = stream_.contents(position);
  Transfer& transfer = *contents.transfer;

  Message message;
  message.header = {.job_id = config_.job_id,
                    .block_id = static_cast<uint32_t>(position),
                    .final = false,
                    .extended = true,
                    .src_id = static_cast<uint8_t>(*config_.source),
                    .src_cnt = 1,
                    .gen_id = contents.gen_id,
                    .grad_cnt = static_cast<uint16_t>(contents.lane_count)};
  const wire::TensorTerms terms = terms_of(transfer);
  message.extension = {.format = terms.format,
                       .tensor_elements = terms.tensor_elements,
                       .scale_bits = terms.scale_bits,
                       .key = join_.terms().key};
  message.extension.flags = wire::seal_flag(config_.auth.mode);
  if (contents.has_exponent) {
    message.extension.exponent = codec_.exponent_of(transfer, contents.exponent_block);
  }
  const uint32_t head_bytes = wire::encoded_head_bytes(message.header, message.extension);
  const bool elided = transfer.elided_elements > 0;
  if (contents.lane_count > 0 && !elided) {
    const uint64_t block = contents.gradient_block;
    const AgreedExponent exponent = StreamWindow::exponent(transfer, block);
    Underflow underflow;  // Of the first contribution only.
    const Fit fit = codec_.write(transfer, block, exponent, &out[head_bytes],
                                 repair_.attempts(position) == 0 ? &underflow : nullptr);
    const bool withholds = fit == Fit::kOverflows && wire::has_exponent(transfer.format) &&
                           may_withhold(position, now);
    stream_.set_withheld(position, withholds);
    if (withholds) [[unlikely]]
      return write_probe(position, out, now);
    message.extension.flags |= flags_of(fit);
    transfer.outcome.underflow += underflow;
    counters_.underflowed += underflow.underflowed;
  }
  record(repair_.attempts(position) > 0 ? recorder::Kind::kResent : recorder::Kind::kSent,
         position);
  if (repair_.attempts(position) > 0) {
    message.extension.flags |= wire::kFlagRetransmission;
    counters_.retransmitted++;
  }
  encode_message(message, out.data());
  const uint32_t lane_bytes = contents.lane_count * wire::gradient_bytes(transfer.format);
  seal(message, out.first(head_bytes), out.subspan(head_bytes, elided ? 0 : lane_bytes));
  repair_.on_contribution_sent(position, now);
  const uint32_t size_bytes = head_bytes + lane_bytes;
  return {.size_bytes = size_bytes,
          .stored_bytes = elided ? head_bytes : size_bytes,
          .to = server_for(message.header.block_id)};
}

Outgoing WorkerProtocol::write_probe(uint64_t position, std::span<std::byte> out, Instant now) {
  const StreamWindow::Contents contents = stream_.contents(position);
  Message message = control(MessageType::kProbe);
  message.header.block_id = static_cast<uint32_t>(position);
  message.header.gen_id = contents.gen_id;
  message.header.grad_cnt = static_cast<uint16_t>(contents.lane_count);
  message.extension.flags |= wire::kFlagRetransmission;
  // A rank that receives only has nothing to repair in the rest of the run.
  const bool about_run = !contents.transfer->receive_only;
  if (about_run) message.extension.flags |= wire::kFlagRun;
  message.extension.tensor_elements = repair_.on_probe_sent(position, about_run, now);
  note_question(now);
  counters_.probes++;
  record(recorder::Kind::kProbed, position);
  Outgoing packet = write_control(message, out);
  packet.to = server_for(message.header.block_id);
  return packet;
}

/// Returns the port by which the aggregator's network card finds the core that owns the block.
Endpoint WorkerProtocol::server_for(uint32_t block_id) const {
  Endpoint server = config_.server;
  server.port =
      static_cast<uint16_t>(server.port + wire::owner_of(block_id, join_.terms().server_ports));
  return server;
}

// --- Control messages ---

Outgoing WorkerProtocol::write_join(std::span<std::byte> out, Instant now) {
  Message message = control(MessageType::kJoin);
  message.extension.key = nonce_;
  message.body = join_.take_request(now);
  note_question(now);
  return write_control(message, out);
}

Outgoing WorkerProtocol::write_leave(std::span<std::byte> out, Instant now) {
  Message message = control(MessageType::kLeave);
  // A worker that abandons its join has no key; the aggregator knows it by its nonce.
  if (!join_.joined()) message.extension.key = nonce_;
  const uint32_t lost = end_.lost_aggregator();
  message.extension.tensor_elements = lost == kNoAggregator ? 0 : lost;
  // An aggregator that answers again tells the others why this rank has left.
  if (lost == 0 && end_.status() == Status::kAggregatorGone) {
    message.extension.tensor_elements = own_place(config_);
  }
  end_.on_leave_sent(now);
  return write_control(message, out);
}

Message WorkerProtocol::control(MessageType type) const {
  Message message;
  message.header = {
      .job_id = config_.job_id, .extended = true, .src_id = static_cast<uint8_t>(*config_.source)};
  message.extension = {.type = type, .key = join_.terms().key};
  // Before the session begins, a seal has the job's key.
  const bool lasting = type == MessageType::kJoin || !join_.joined();
  message.extension.flags =
      wire::seal_flag(lasting && seals_.is_sealed() ? auth::Mode::kHeader : config_.auth.mode);
  return message;
}

/// Seals an encoded message, in a job with a secret.
void WorkerProtocol::seal(const wire::MessageHead& message, std::span<std::byte> head,
                          std::span<const std::byte> lanes) {
  if (!seals_.is_sealed()) return;
  if (message.extension.type == MessageType::kJoin || !join_.joined()) {
    seals_.seal_join(head);
  } else {
    seals_.seal(message.header.src_id, head, lanes);
  }
}

Outgoing WorkerProtocol::write_control(const Message& message, std::span<std::byte> out) {
  const uint32_t size_bytes = encode_message(message, out.data());
  seal(message, out.first(size_bytes), {});
  return {.size_bytes = size_bytes, .stored_bytes = size_bytes, .to = config_.server};
}

}  // namespace tributary::host
