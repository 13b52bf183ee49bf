// SPDX-License-Identifier: Apache-2.0
// A worker of the race that uses Gloo: ring (its current interface) or halving_doubling.
#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>

#include <functional>
#include <map>
#include <memory>

#include "bench/race/client/client.h"

namespace tributary::race {
namespace {

constexpr const char* kHalvingDoubling = "halving_doubling";

std::shared_ptr<gloo::Context> connect(const ClientConfig& config) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = config.interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(config.scratch);
  auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(config.rank),
                                                             static_cast<int>(config.workers));
  context->connectFullMesh(store, device);
  return context;
}

/// Runs the ring, in place.
template <class T>
void reduce_ring(const std::shared_ptr<gloo::Context>& context, std::span<T> tensor, uint32_t tag) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setOutput(tensor.data(), tensor.size());
  using Sum = void (*)(void*, const void*, const void*, size_t);
  options.setReduceFunction(static_cast<Sum>(&gloo::sum<T>));
  options.setTag(tag);
  gloo::allreduce(options);
}

/// Halving-doubling binds to its tensor at construction. The construction is set-up, done once per
/// tensor and not measured.
template <class T>
class HalvingDoubling {
 public:
  explicit HalvingDoubling(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  void reduce(std::span<T> tensor) {
    auto& algorithm = made_[tensor.data()];
    if (algorithm == nullptr) {
      algorithm = std::make_unique<gloo::AllreduceHalvingDoubling<T>>(
          context_, std::vector<T*>{tensor.data()}, static_cast<int>(tensor.size()));
    }
    algorithm->run();
  }

 private:
  std::shared_ptr<gloo::Context> context_;
  std::map<T*, std::unique_ptr<gloo::AllreduceHalvingDoubling<T>>> made_;
};

/// Returns the all-reduce of elements of type T, given as Bits.
template <class T, class Bits>
std::function<Result<std::vector<PartialSum>>(std::span<Bits>)> all_reduce_of(
    const ClientConfig& config) {
  const auto context = connect(config);
  const auto halving_doubling = std::make_shared<HalvingDoubling<T>>(context);
  const bool is_ring = config.algorithm != kHalvingDoubling;
  return [=, tag = uint32_t{0}](std::span<Bits> bits) mutable -> Result<std::vector<PartialSum>> {
    const std::span<T> tensor(reinterpret_cast<T*>(bits.data()), bits.size());
    try {
      if (is_ring) {
        reduce_ring(context, tensor, tag++);
      } else {
        halving_doubling->reduce(tensor);
      }
    } catch (const std::exception& error) {
      return failure(error.what());
    }
    return std::vector<PartialSum>{};
  };
}

Result<void> run(const ClientConfig& config) {
  // Gloo reports errors as exceptions; none leaves this function.
  try {
    if (config.wire == 16) {
      return run_half_laps(config, all_reduce_of<gloo::float16, uint16_t>(config));
    }
    return run_laps(config, all_reduce_of<float, float>(config));
  } catch (const std::exception& error) {
    return failure(error.what());
  }
}

}  // namespace
}  // namespace tributary::race

int main(int argc, char** argv) {
  CLI::App app("A worker of `tributary bench race` that uses Gloo; started by it");
  tributary::race::ClientConfig config;
  tributary::race::add_client_options(app, config);
  CLI11_PARSE(app, argc, argv);
  const auto done = tributary::race::run(config);
  if (done) return 0;
  fmt::print(stderr, "rank {}: {}\n", config.rank, done.error().text);
  return 1;
}
