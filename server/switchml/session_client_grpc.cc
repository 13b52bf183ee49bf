// SPDX-License-Identifier: Apache-2.0
// Built where gRPC is installed.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "base/clock.h"
#include "server/switchml/session_client.h"
#include "switchml.grpc.pb.h"
#include "wire/switchml.h"

namespace tributary::server {
namespace {

namespace proto = switchml_proto;

/// Converts a failed call's status to a Result with one line of text.
Result<void> checked(const SessionRequest& request, const char* call, const grpc::Status& status) {
  if (status.ok()) return {};
  std::string text = status.error_message();
  std::ranges::replace(text, '\n', ' ');
  return failure(fmt::format("--control {}: {}: {}", request.control.to_string(), call, text));
}

class Calls {
 public:
  explicit Calls(const SessionRequest& request)
      : request_(request), until_(monotonic_now() + request.deadline) {
    grpc::ChannelArguments arguments;
    // The server tells barriers apart by connection, so each worker needs its own.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(request.control.to_string(),
                                                   grpc::InsecureChannelCredentials(), arguments);
    session_ = proto::Session::NewStub(channel);
    sync_ = proto::Sync::NewStub(channel);
  }

  Result<uint64_t> broadcast() {
    proto::BroadcastRequest call;
    call.set_value(request_.session_id);
    call.set_rank(request_.rank);
    call.set_num_workers(request_.world);
    proto::BroadcastResponse answer;
    grpc::ClientContext context;
    prepare(context);
    const auto good = checked(request_, "Broadcast", sync_->Broadcast(&context, call, &answer));
    if (!good) return tl::unexpected(good.error());
    return answer.value();
  }
  Result<void> barrier() {
    proto::BarrierRequest call;
    call.set_num_workers(request_.world);
    proto::BarrierResponse answer;
    grpc::ClientContext context;
    prepare(context);
    return checked(request_, "Barrier", sync_->Barrier(&context, call, &answer));
  }
  Result<Endpoint> udp_session(uint64_t id) {
    proto::UdpSessionRequest call;
    call.set_session_id(id);
    call.set_rank(request_.rank);
    call.set_num_workers(request_.world);
    call.set_mac(request_.mac);
    call.set_ipv4(request_.ipv4);
    call.set_packet_size(request_.elements == 64 ? proto::MTU_256 : proto::MTU_1024);
    proto::UdpSessionResponse answer;
    grpc::ClientContext context;
    prepare(context);
    const auto good =
        checked(request_, "UdpSession", session_->UdpSession(&context, call, &answer));
    if (!good) return tl::unexpected(good.error());
    return Endpoint::ipv4(answer.ipv4(), wire::kSwitchmlPort);
  }

 private:
  void prepare(grpc::ClientContext& context) const {
    // gRPC converts a deadline to its steady clock when a call begins.
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::nanoseconds(in_nanoseconds(until_ - monotonic_now())));
    context.set_wait_for_ready(true);  // The server may start after its workers.
  }

  const SessionRequest& request_;
  const Instant until_;  ///< By the steady clock, so that a step of the wall clock has no effect.
  std::unique_ptr<proto::Session::Stub> session_;
  std::unique_ptr<proto::Sync::Stub> sync_;
};

}  // namespace

Result<Endpoint> join_session(const SessionRequest& request) {
  Calls calls(request);
  const auto id = calls.broadcast();
  if (!id) return tl::unexpected(id.error());
  // Rank 0's call clears an older session, so it must precede the other ranks' calls.
  if (request.rank != 0) {
    if (const auto met = calls.barrier(); !met) return tl::unexpected(met.error());
  }
  auto address = calls.udp_session(*id);
  if (!address) return address;
  for (uint32_t i = request.rank == 0 ? 0 : 1; i < 2; i++) {
    if (const auto met = calls.barrier(); !met) return tl::unexpected(met.error());
  }
  return address;
}

}  // namespace tributary::server
