// SPDX-License-Identifier: Apache-2.0
#include "programs/filter_program.h"

#include "apps/filter/app.h"
#include "programs/capture_run.h"

namespace tributary::programs {
namespace {

class FilterInstance {
 public:
  using App = filter::App;
  static constexpr io::Steering kSteering = io::Steering::kByFlow;
  static constexpr bool kPortsCountForwarded = true;

  static const KeyTable& settings() {
    static const KeyTable kNone("filter", {});
    return kNone;
  }
  static Result<std::unique_ptr<FilterInstance>> create(const KeyValues&, const InstanceTerms&) {
    auto memory = memory::SharedMemory::create({});
    if (!memory) return tl::unexpected(memory.error());
    std::unique_ptr<FilterInstance> instance(new FilterInstance(*std::move(memory)));
    auto state = filter::FilterState::create(instance->memory_);
    if (!state) return tl::unexpected(state.error());
    instance->state_ = *state;
    return instance;
  }

  App app() { return App(*state_); }
  memory::SharedMemory& memory() { return memory_; }
  [[nodiscard]] std::vector<OutcomeCount> outcomes() const {
    std::vector<OutcomeCount> counts;
    for (uint32_t i = 0; i < filter::kDropCount; i++) {
      const auto reason = static_cast<filter::Drop>(i);
      counts.push_back({filter::to_string(reason), state_->dropped(reason)});
    }
    return counts;
  }
  [[nodiscard]] static nlohmann::ordered_json details() { return nlohmann::ordered_json::object(); }

 private:
  explicit FilterInstance(memory::SharedMemory memory) : memory_(std::move(memory)) {}

  memory::SharedMemory memory_;
  std::optional<filter::FilterState> state_;
};

}  // namespace

const Program kFilterProgram{
    {{.name = "filter",
      .summary = "Forwards IPv4 packets without options and drops all others (Trio paper §3.2)",
      .has_flow_records = false,
      .settings = FilterInstance::settings,
      .run = run_program<FilterInstance>},
     /*serve=*/LiveServiceOf<FilterInstance>::start},
    /*mechanisms=*/"instructions, Packet/Byte counters in SRAM",
    /*memory=*/"next to none",
};

}  // namespace tributary::programs
