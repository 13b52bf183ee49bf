// SPDX-License-Identifier: Apache-2.0
// Built where gRPC is installed.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "server/switchml/control_server.h"
#include "server/switchml/rendezvous.h"
#include "switchml.grpc.pb.h"

namespace tributary::server {
namespace {

namespace proto = switchml_proto;

/// Messages of the interface are below 100 bytes, except for RdmaSession's lists, which are
/// refused.
constexpr int kMessageBytesMax = 64 * 1024;
/// How long the end of a control point waits for clients to close their connections. Assumed: far
/// more than a round trip; all calls have their answers before.
constexpr std::chrono::milliseconds kShutdownGrace{500};

grpc::StatusCode code_of(Rendezvous::Error error) {
  switch (error) {
    case Rendezvous::Error::kNone:
      return grpc::StatusCode::OK;
    case Rendezvous::Error::kInvalid:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Rendezvous::Error::kTooMany:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Rendezvous::Error::kDeadline:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Rendezvous::Error::kAborted:
      break;
  }
  return grpc::StatusCode::ABORTED;
}

/// The meeting of one control point's workers: the waiting calls, and the thread that enforces
/// their deadlines.
class MeetingPoint {
 public:
  /// A waiting call. It is answered once.
  class Call : public grpc::ServerUnaryReactor {
   public:
    explicit Call(MeetingPoint& meeting) : meeting_(meeting) {}
    void OnCancel() override { meeting_.cancel(*this); }
    void OnDone() override { delete this; }
    virtual void set_value(uint64_t) {}

   private:
    friend class MeetingPoint;
    MeetingPoint& meeting_;
    Rendezvous::Ticket ticket_ = 0;  ///< Guarded by the meeting's mutex; 0 before ask().
    bool cancelled_ = false;
  };

  explicit MeetingPoint(Duration deadline)
      : meeting_(deadline), clock_([this] { watch_deadlines(); }) {}
  ~MeetingPoint() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    clock_.join();
  }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  void broadcast(Call& call, const std::string& peer, const Rendezvous::Broadcast& request) {
    ask(call, [&] { return meeting_.broadcast(peer, request, monotonic_now()); });
  }
  void barrier(Call& call, const std::string& peer, uint32_t num_workers) {
    ask(call, [&] { return meeting_.barrier(peer, num_workers, monotonic_now()); });
  }
  /// Fails the waiting calls of this connection's job with `text`.
  void fail(const std::string& peer, const std::string& text) {
    Answers answers;
    {
      const std::lock_guard lock(mutex_);
      meeting_.fail(peer, text);
      answers = answered();
    }
    give(answers);
  }
  /// Ends all waiting calls; later calls end at once.
  void close() {
    std::vector<Call*> calls;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      for (const auto& [ticket, call] : waiting_) calls.push_back(call);
      waiting_.clear();
    }
    for (Call* call : calls) {
      call->Finish({grpc::StatusCode::UNAVAILABLE, "the server is stopping"});
    }
  }

 private:
  using Answers = std::vector<std::pair<Call*, Rendezvous::Answer>>;

  template <class Ask>
  void ask(Call& call, Ask&& ask_meeting) {
    Answers answers;
    bool ended = false;
    {
      const std::lock_guard lock(mutex_);
      ended = closed_ || call.cancelled_;
      if (!ended) {
        call.ticket_ = ask_meeting();
        waiting_[call.ticket_] = &call;
        answers = answered();
      }
    }
    if (ended) {
      call.Finish({grpc::StatusCode::UNAVAILABLE, "the server is stopping"});
      return;
    }
    changed_.notify_all();
    give(answers);
  }
  void cancel(Call& call) {
    Answers answers;
    {
      const std::lock_guard lock(mutex_);
      call.cancelled_ = true;
      if (waiting_.erase(call.ticket_) == 0) return;  // Answer under way, or ask() not called.
      meeting_.cancel(call.ticket_);
      answers = answered();
    }
    call.Finish(grpc::Status::CANCELLED);
    give(answers);
  }
  /// @pre mutex_ is held.
  Answers answered() {
    Answers answers;
    for (Rendezvous::Answer& answer : meeting_.take_answers()) {
      const auto found = waiting_.find(answer.ticket);
      if (found == waiting_.end()) continue;
      answers.emplace_back(found->second, std::move(answer));
      waiting_.erase(found);
    }
    return answers;
  }
  static void give(const Answers& answers) {
    for (const auto& [call, answer] : answers) {
      call->set_value(answer.value);
      call->Finish({code_of(answer.error), answer.text});
    }
  }
  void watch_deadlines() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const Instant now = monotonic_now();
      meeting_.on_time(now);
      const Answers answers = answered();
      if (!answers.empty()) {
        lock.unlock();
        give(answers);
        lock.lock();
        continue;
      }
      const Instant due = meeting_.next_deadline();
      if (due == Instant::never()) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, std::chrono::nanoseconds(in_nanoseconds(due - now) + 1));
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Rendezvous meeting_;
  std::map<Rendezvous::Ticket, Call*> waiting_;
  bool closed_ = false;
  bool stopping_ = false;
  std::thread clock_;  ///< Last member: its thread uses all members above.
};

class SyncService final : public proto::Sync::CallbackService {
 public:
  explicit SyncService(MeetingPoint& meeting) : meeting_(meeting) {}

  grpc::ServerUnaryReactor* Barrier(grpc::CallbackServerContext* context,
                                    const proto::BarrierRequest* request,
                                    proto::BarrierResponse*) override {
    auto* const call = new MeetingPoint::Call(meeting_);  // Deleted by OnDone().
    meeting_.barrier(*call, context->peer(), request->num_workers());
    return call;
  }
  grpc::ServerUnaryReactor* Broadcast(grpc::CallbackServerContext* context,
                                      const proto::BroadcastRequest* request,
                                      proto::BroadcastResponse* response) override {
    auto* const call = new BroadcastCall(meeting_, *response);
    meeting_.broadcast(*call, context->peer(),
                       {.value = request->value(),
                        .rank = request->rank(),
                        .num_workers = request->num_workers(),
                        .root = request->root()});
    return call;
  }

 private:
  class BroadcastCall final : public MeetingPoint::Call {
   public:
    BroadcastCall(MeetingPoint& meeting, proto::BroadcastResponse& response)
        : Call(meeting), response_(response) {}
    void set_value(uint64_t value) override { response_.set_value(value); }

   private:
    proto::BroadcastResponse& response_;
  };

  MeetingPoint& meeting_;
};

class SessionService final : public proto::Session::CallbackService {
 public:
  SessionService(SessionDesk& desk, MeetingPoint& meeting) : desk_(desk), meeting_(meeting) {}

  grpc::ServerUnaryReactor* UdpSession(grpc::CallbackServerContext* context,
                                       const proto::UdpSessionRequest* request,
                                       proto::UdpSessionResponse* response) override {
    const auto joined = desk_.join({.session_id = request->session_id(),
                                    .rank = request->rank(),
                                    .num_workers = request->num_workers(),
                                    .address = Endpoint::ipv4(request->ipv4(), 1),
                                    .elements = elements_of(request->packet_size()),
                                    .mac = request->mac()});
    grpc::ServerUnaryReactor* const call = context->DefaultReactor();
    if (!joined) {
      meeting_.fail(context->peer(), joined.error().text);
      call->Finish({grpc::StatusCode::FAILED_PRECONDITION, joined.error().text});
      return call;
    }
    response->set_session_id(request->session_id());
    response->set_mac(joined->mac);
    response->set_ipv4(joined->ipv4);
    call->Finish(grpc::Status::OK);
    return call;
  }
  grpc::ServerUnaryReactor* RdmaSession(grpc::CallbackServerContext* context,
                                        const proto::RdmaSessionRequest*,
                                        proto::RdmaSessionResponse*) override {
    grpc::ServerUnaryReactor* const call = context->DefaultReactor();
    call->Finish({grpc::StatusCode::UNIMPLEMENTED,
                  "this switch speaks UDP only; set the client's backend to dpdk"});
    return call;
  }

 private:
  /// Returns the elements of a packet. Also converts sizes for which the published switch has no
  /// program; the desk refuses those by their number.
  static uint32_t elements_of(proto::PacketSize size) {
    constexpr uint32_t kElementsLeast = 32;
    return size >= 0 && size <= proto::MTU_1024 ? kElementsLeast << size : 0;
  }

  SessionDesk& desk_;
  MeetingPoint& meeting_;
};

class ControlPoint {
 public:
  ControlPoint(const Endpoint& address, Duration deadline, SessionDesk& desk)
      : meeting_(deadline), sync_(meeting_), sessions_(desk, meeting_) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address.to_string(), grpc::InsecureServerCredentials(), &port);
    // Otherwise a second server on this port would silently receive some of the calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    builder.RegisterService(&sync_);
    builder.RegisterService(&sessions_);
    server_ = builder.BuildAndStart();
    address_ = address;
    if (server_ != nullptr) address_.port = static_cast<uint16_t>(port);
  }
  ~ControlPoint() {
    meeting_.close();
    // Without a deadline, a client that does not answer could delay the end by 20 s.
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  }
  ControlPoint(const ControlPoint&) = delete;
  ControlPoint& operator=(const ControlPoint&) = delete;

  [[nodiscard]] bool is_listening() const { return server_ != nullptr; }
  [[nodiscard]] const Endpoint& address() const { return address_; }

 private:
  MeetingPoint meeting_;
  SyncService sync_;
  SessionService sessions_;
  std::unique_ptr<grpc::Server> server_;
  Endpoint address_;
};

class GrpcControlServer final : public ControlServer {
 public:
  Result<void> add(const Endpoint& address, Duration deadline, SessionDesk& desk) {
    auto point = std::make_unique<ControlPoint>(address, deadline, desk);
    if (!point->is_listening()) {
      // gRPC keeps the cause to itself; most often another server has the port.
      return failure(fmt::format("--control {}: cannot listen there; is the port in use?",
                                 address.to_string()),
                     ErrorKind::kPassing);
    }
    addresses_.push_back(point->address());
    points_.push_back(std::move(point));
    return {};
  }
  [[nodiscard]] const std::vector<Endpoint>& addresses() const override { return addresses_; }

 private:
  std::vector<std::unique_ptr<ControlPoint>> points_;
  std::vector<Endpoint> addresses_;
};

}  // namespace

bool ControlServer::available() { return true; }

Result<std::unique_ptr<ControlServer>> ControlServer::start(const ControlConfig& config,
                                                            SessionDesk& desk) {
  auto server = std::make_unique<GrpcControlServer>();
  for (const Endpoint& address : config.addresses) {
    if (const auto added = server->add(address, config.deadline, desk); !added) {
      return tl::unexpected(added.error());
    }
  }
  return server;
}

}  // namespace tributary::server
