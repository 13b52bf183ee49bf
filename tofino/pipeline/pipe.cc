// SPDX-License-Identifier: Apache-2.0
// A pipe's memory, and the control plane's access to it.
#include "tofino/pipeline/pipe.h"

#include "base/assert.h"

namespace tributary::tofino {

Pipe::Pipe(const Executable& executable, const Tables& tables, uint64_t seed)
    : executable_(executable),
      tables_(tables),
      prng_(seed),
      phv_(executable.phv_words),
      header_at_(executable.program->headers.size()),
      ingress_routes_(executable, executable.ingress),
      egress_routes_(executable, executable.egress) {
  for (const Executable::BankCode& bank : executable.banks) {
    banks_.emplace_back(size_t{bank.entries} * bank.registers * (bank.pair ? 2 : 1));
  }
  for (const Executable::BankPlace& place : executable.bank_of) {
    const Executable::BankCode& bank = executable.banks[place.bank];
    uint32_t* const words = banks_[place.bank].data();  // Null if values are elided.
    ports_.push_back({.words = words == nullptr ? nullptr : words + place.position,
                      .entries = bank.entries,
                      .entry_words = bank.registers * (bank.pair ? 2 : 1),
                      .to_high = bank.registers});
  }
  const Program& program = *executable.program;
  for (RegisterId id = 0; id < program.registers.size(); id++) {
    const Register& reg = program.registers[id];
    for (uint32_t entry = 0; entry < ports_[id].entries; entry++) {
      for (uint32_t word = 0; word < (reg.pair ? 2 : 1); word++) {
        set_register_word(id, entry, word, reg.initial[word]);
      }
    }
  }
  for (const Counter& counter : program.counters) counters_.emplace_back(counter.entries);
  changed_.reserve(program.headers.size());
}

uint32_t& Pipe::word_at(RegisterId reg, uint32_t entry, uint32_t word) const {
  const RegisterPort& port = ports_.at(reg);
  TRIB_ASSERT(entry < port.entries && word < port.entry_words / port.to_high);
  return port.words[size_t{entry} * port.entry_words + size_t{word} * port.to_high];
}

uint32_t Pipe::register_word(RegisterId reg, uint32_t entry, uint32_t word) const {
  return word_at(reg, entry, word);
}

void Pipe::set_register_word(RegisterId reg, uint32_t entry, uint32_t word, uint32_t value) {
  word_at(reg, entry, word) = value;
}

uint64_t Pipe::counter(CounterId counter, uint32_t entry) const {
  return counters_.at(counter).at(entry);
}

void Pipe::begin() {
  std::fill(phv_.begin(), phv_.end(), 0);
  std::fill(header_at_.begin(), header_at_.end(), kNotParsed);
  if (tables_generation_ != tables_.generation()) compile_steps();
}

}  // namespace tributary::tofino
