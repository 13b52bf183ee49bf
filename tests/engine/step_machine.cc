// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/step_machine.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"
#include "engine/model/trace_words.h"
#include "memory/lanes.h"
#include "memory/rmw.h"

namespace tributary::testing {

using microcode::Accumulate;
using microcode::Xtxn;
using microcode::XtxnKind;

/// A request without a reply; the machine keeps it.
class StepMachine::Post final : public Request {
 public:
  Post(StepMachine& machine, Xtxn xtxn, std::function<void()> service)
      : Request(machine, xtxn), service_(std::move(service)) {
    enqueue();
  }

 private:
  bool serve() override {
    microcode::run_service(service_);
    return true;
  }

  std::function<void()> service_;
};

StepMachine::StepMachine(const Config& config)
    : packets_({.packet_count = config.thread_count, .packet_bytes_max = config.packet_bytes_max}),
      frames_(config.thread_count * (microcode::kCallDepthMax + 1)),
      prng_(config.seed) {
  for (uint32_t i = 0; i < config.thread_count; i++) {
    threads_.push_back(std::make_unique<ThreadState>());
    free_.push_back(threads_.back().get());
  }
}

StepMachine::~StepMachine() = default;

// --- Starting and ending threads ---

StepMachine::ThreadState& StepMachine::take_thread() {
  TRIB_ASSERT(!free_.empty());
  ThreadState& thread = *free_.back();
  free_.pop_back();
  thread.number = ++thread_numbers_;
  thread.packet = {};
  thread.head_bytes = 0;
  thread.packet_ended = false;
  thread.steps = 0;
  thread.position = {};
  threads_active_max_ = std::max(threads_active_max_, threads_active());
  return thread;
}

void StepMachine::begin_start(std::span<const std::byte> packet, const Endpoint& source,
                              engine::PacketLayer layer) {
  begin_start();
  const auto handle = packets_.store(packet);
  TRIB_ASSERT(handle.has_value());
  const auto head = packets_.head(*handle);
  current_ = &take_thread();
  current_->packet = *handle;
  current_->head_bytes = static_cast<uint32_t>(head.size());
  current_->head_first = engine::kHeadroomBytes;
  std::copy(head.begin(), head.end(), current_->head());
  current_->layer = layer;
  current_->arrived_at = now_;
  current_->source = source;
}

void StepMachine::begin_start() {
  TRIB_ASSERT(current_ == nullptr && !starting_);
  starting_ = true;
}

void StepMachine::end_start() {
  TRIB_ASSERT(current_ == nullptr || !current_->control.finished());  // Else: packet ignored.
  starting_ = false;
  current_ = nullptr;
}

microcode::ThreadControl& StepMachine::thread_control() {
  if (!starting_) {  // The current thread calls a subroutine.
    TRIB_ASSERT(current_ != nullptr);
    call_depth_max_ = std::max(call_depth_max_, current_->control.call_depth() + 1);
    return current_->control;
  }
  const bool another = current_ == nullptr || !current_->control.finished();
  if (another) {
    TRIB_ASSERT(current_ == nullptr || !current_->packet.is_set());  // One thread for each packet.
    current_ = &take_thread();
  }
  runnable_.push_back(current_);
  return current_->control;
}

void StepMachine::end_thread(ThreadState& thread) {
  std::erase(runnable_, &thread);
  if (thread.packet.is_set()) {
    if (!thread.packet_ended) consumed_++;
    packets_.release(thread.packet);
  }
  thread.number = 0;
  free_.push_back(&thread);
}

// --- Steps ---

bool StepMachine::step() {
  const size_t choices = runnable_.size() + pending_.size();
  if (choices == 0) return false;
  const uint32_t pick = prng_.below(static_cast<uint32_t>(choices));
  if (pick < runnable_.size()) {
    run_thread(*runnable_[pick]);
  } else {
    serve(pick - runnable_.size());
  }
  return true;
}

void StepMachine::run() {
  while (step()) {
  }
  TRIB_ASSERT(threads_active() == 0);
  check_in_flight();
}

void StepMachine::run_thread(ThreadState& thread) {
  current_ = &thread;
  meter_.resume(thread.position);
  thread.control.run();
  meter_.pause();
  current_ = nullptr;
  if (thread.control.finished()) {
    end_thread(thread);
  } else {
    std::erase(runnable_, &thread);
  }
}

void StepMachine::enqueue(Request& request) { pending_.push_back(&request); }

void StepMachine::wait_for(Request& request) {
  TRIB_ASSERT(current_ != nullptr && request.thread_ == current_ && !request.awaited_);
  request.awaited_ = true;
  current_->position.reply = engine::to_string(request.xtxn_.kind);
  current_->control.set_waiting(true);
}

void StepMachine::serve(size_t pick) {
  // Earlier requests of the same thread to the same target come first.
  const auto goes_before = [&](const Request* request) {
    return request->thread_number_ == pending_[pick]->thread_number_ &&
           request->xtxn_.target == pending_[pick]->xtxn_.target;
  };
  const auto position = std::find_if(pending_.begin(), pending_.end(), goes_before);
  Request& request = **position;
  xtxns_[static_cast<size_t>(request.xtxn_.kind)]++;
  meter_.name(request.thread_->position);
  const bool is_served = request.serve();
  meter_.end_naming();
  if (!is_served) return;

  pending_.erase(position);
  request.served_ = true;
  if (request.awaited_) {
    request.thread_->control.set_waiting(false);
    runnable_.push_back(request.thread_);
  }
  std::erase_if(posts_, [](const auto& post) { return post->await_ready(); });
}

void StepMachine::add_post(Xtxn xtxn, std::function<void()> service) {
  posts_.push_back(std::make_unique<Post>(*this, xtxn, std::move(service)));
}

// --- For programs ---

const StepMachine::ThreadState& StepMachine::current() const {
  TRIB_ASSERT(current_ != nullptr);
  return *current_;
}

void StepMachine::instruction(const microcode::Instruction& mark, const Place& place) {
  TRIB_ASSERT(current_ != nullptr);
  if (!starting_) {  // A program may read a packet before it starts a thread.
    meter_.begin(mark, 1, place);
    meter_.count_step(current_->steps, place);
    current_->position = {.mark = mark.name, .place = place};
  }
  instructions_[mark.name]++;
  instructions_total_++;
}

microcode::MeteredHead StepMachine::head(const Place& place) const {
  TRIB_ASSERT(current().packet.is_set());
  return {std::span<const std::byte>(current_->head(), current_->head_bytes), current_->head_first,
          starting_ ? nullptr : &meter_, place};
}
void StepMachine::write_head(uint32_t offset_bytes, std::span<const std::byte> bytes,
                             const Place& place) {
  TRIB_ASSERT(current().packet.is_set());
  TRIB_REQUIRE_AT(!current_->packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(offset_bytes + bytes.size() <= current_->head_bytes, microcode::rule::kWriteHead,
                  place);
  std::byte* const first = current_->head() + offset_bytes;
  std::memcpy(first, bytes.data(), bytes.size());
  packets_.write_head(current_->packet, offset_bytes, bytes);
  if (!starting_) meter_.write_lmem(first, static_cast<uint32_t>(bytes.size()), place);
}
void StepMachine::push_head(std::span<const std::byte> bytes, const Place& place) {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(arrived_as_frame() && bytes.size() <= current_->head_first,
                  microcode::rule::kPushHead, place);
  packets_.push_head(current_->packet, bytes);
  const auto count = static_cast<uint32_t>(bytes.size());
  current_->head_first -= count;
  current_->head_bytes += count;
  write_head(0, bytes, place);
}
void StepMachine::pop_head(uint32_t count, const Place& place) {
  TRIB_REQUIRE_AT(!current().packet_ended, microcode::rule::kEndOnce, place);
  TRIB_REQUIRE_AT(arrived_as_frame() && count <= current_->head_bytes, microcode::rule::kPopHead,
                  place);
  packets_.pop_head(current_->packet, count);
  current_->head_first += count;
  current_->head_bytes -= count;
}
uint32_t StepMachine::packet_size() const { return packets_.size(current().packet); }
bool StepMachine::arrived_as_frame() const {
  TRIB_ASSERT(current().packet.is_set());
  return current_->layer == engine::PacketLayer::kFrame;
}
const Endpoint& StepMachine::source() const {
  TRIB_ASSERT(current().packet.is_set());
  return current_->source;
}

void StepMachine::send(std::span<const std::byte> payload, std::span<const Endpoint> destinations) {
  TRIB_ASSERT(current_ != nullptr);
  sent_.push_back({{payload.begin(), payload.end()},
                   {destinations.begin(), destinations.end()},
                   /*small=*/false});
  in_flight_.push_back({payload.data(), {payload.begin(), payload.end()}});
}

void StepMachine::send_small(std::span<const std::byte> payload, const Endpoint& destination) {
  TRIB_ASSERT(payload.size() <= engine::kHeadBytes);
  sent_.push_back({{payload.begin(), payload.end()}, {destination}, /*small=*/true});
}

void StepMachine::check_in_flight() const {
  for (const InFlight& message : in_flight_) {
    const auto size = message.as_sent.size();
    TRIB_ASSERT(std::memcmp(message.payload, message.as_sent.data(), size) == 0);
  }
}

void StepMachine::release_payload(std::span<const std::byte>) {
  check_in_flight();
  in_flight_.clear();
}

void StepMachine::begin_xtxn(const Xtxn& xtxn, const Place& place) {
  check_xtxn(xtxn, place);
  meter_.issue_xtxn(place);
  if (current_ != nullptr) meter_.count_step(current_->steps, place);
}

void StepMachine::end_packet(const Place& place) {
  TRIB_REQUIRE_AT(current().packet.is_set(), microcode::rule::kEndInProcess, place);
  TRIB_REQUIRE_AT(!current_->packet_ended, microcode::rule::kEndOnce, place);
  current_->packet_ended = true;
}

void StepMachine::forward(const Place& place) {
  end_packet(place);
  const auto bytes = packets_.bytes(current_->packet);
  forwarded_.emplace_back(bytes.begin(), bytes.end());
}

void StepMachine::drop(uint32_t reason, const Place& place) {
  end_packet(place);
  dropped_[reason]++;
}

uint64_t StepMachine::dropped(uint32_t reason) const {
  const auto found = dropped_.find(reason);
  return found == dropped_.end() ? 0 : found->second;
}

uint64_t StepMachine::instructions(const std::string& name) const {
  const auto found = instructions_.find(name);
  return found == instructions_.end() ? 0 : found->second;
}

// --- Leaf loops ---

StepMachine::AccumulateLoop StepMachine::accumulate(int32_t* lanes, uint32_t offset_bytes,
                                                    uint32_t count, Accumulate how,
                                                    microcode::LaneWidth width) {
  return AccumulateLoop(*this, lanes, offset_bytes, count, how, width);
}

StepMachine::FinishLoop StepMachine::finish_lanes(int32_t* lanes, uint32_t count,
                                                  microcode::ResultLanes result) {
  return FinishLoop(*this, lanes, count, result);
}

StepMachine::AccumulateLoop::AccumulateLoop(StepMachine& machine, int32_t* lanes,
                                            uint32_t offset_bytes, uint32_t count, Accumulate how,
                                            microcode::LaneWidth width)
    : Request(machine, Xtxn{XtxnKind::kTailRead, lanes, microcode::kTailChunkBytes}),
      lanes_(lanes),
      lanes_left_(count),
      how_(how),
      gradient_bytes_(bytes_of(width)) {
  TRIB_ASSERT(uint64_t{offset_bytes} + uint64_t{count} * gradient_bytes_ <= machine.packet_size());
  TRIB_ASSERT(!thread_->in_leaf_loop);  // A thread's local memory has room for one chunk.
  thread_->in_leaf_loop = true;
  if (offset_bytes < thread_->head_bytes) {
    chunk_bytes_ = thread_->head_bytes - offset_bytes;
    std::memcpy(thread_->chunk.data(), thread_->head() + offset_bytes, chunk_bytes_);
  } else {
    tail_offset_bytes_ = offset_bytes - thread_->head_bytes;
  }
  plan_next();
  served_ = count == 0;
  if (!served_) enqueue();
}

void StepMachine::AccumulateLoop::plan_next() {
  if (chunk_bytes_ >= gradient_bytes_) {
    const uint32_t lanes_now = std::min(chunk_bytes_ / gradient_bytes_, lanes_left_);
    xtxn_ = {XtxnKind::kFetchAndOp, lanes_, lanes_now * 4};
  } else {
    xtxn_ = {XtxnKind::kTailRead, thread_, microcode::kTailChunkBytes};
  }
}

bool StepMachine::AccumulateLoop::serve() {
  if (chunk_bytes_ >= gradient_bytes_) {
    add_chunk();
  } else {
    read_chunk();
  }
  plan_next();
  return lanes_left_ == 0;
}

void StepMachine::AccumulateLoop::add_chunk() {
  const uint32_t lanes_now = std::min(chunk_bytes_ / gradient_bytes_, lanes_left_);
  std::byte* chunk = thread_->chunk.data();
  for (uint32_t i = 0; i < lanes_now; i++) {
    const int32_t gradient = gradient_bytes_ == 2
                                 ? static_cast<int16_t>(load_be<uint16_t>(chunk + 2 * i))
                                 : static_cast<int32_t>(load_be<uint32_t>(chunk + 4 * i));
    if (how_ == Accumulate::kFirst) lanes_[i] = 0;
    memory::add32(lanes_[i], gradient);
  }
  lanes_ += lanes_now;
  lanes_left_ -= lanes_now;
  // The head rarely ends on a whole gradient: the rest waits for the next chunk.
  chunk_bytes_ -= lanes_now * gradient_bytes_;
  std::memmove(chunk, chunk + size_t{lanes_now} * gradient_bytes_, chunk_bytes_);
}

void StepMachine::AccumulateLoop::read_chunk() {
  const std::span<std::byte> room(thread_->chunk.data() + chunk_bytes_, microcode::kTailChunkBytes);
  const uint32_t read_bytes =
      machine_.packets_.read_tail(thread_->packet, tail_offset_bytes_, room);
  TRIB_ASSERT(read_bytes > 0);
  tail_offset_bytes_ += read_bytes;
  chunk_bytes_ += read_bytes;
}

StepMachine::FinishLoop::FinishLoop(StepMachine& machine, int32_t* lanes, uint32_t count,
                                    microcode::ResultLanes result)
    : Request(machine, {XtxnKind::kWrite, lanes, microcode::kResultChunkBytes}),
      lanes_(lanes),
      to_(reinterpret_cast<std::byte*>(lanes)),
      lanes_left_(count),
      result_(result) {
  served_ = count == 0;
  if (!served_) enqueue();
}

bool StepMachine::FinishLoop::serve() {
  const uint32_t lanes_now = std::min(lanes_left_, microcode::kResultChunkBytes / 4);
  if (result_.width == microcode::LaneWidth::k16) {
    memory::to_be16(to_, lanes_, lanes_now, result_.shift);
  } else {
    for (uint32_t i = 0; i < lanes_now; i++) {
      lanes_[i] = static_cast<int32_t>(byte_swapped(static_cast<uint32_t>(lanes_[i])));
    }
  }
  to_ += size_t{lanes_now} * bytes_of(result_.width);
  lanes_ += lanes_now;
  lanes_left_ -= lanes_now;
  xtxn_.target = lanes_;
  return lanes_left_ == 0;
}

}  // namespace tributary::testing
