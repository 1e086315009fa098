// SPDX-License-Identifier: Apache-2.0
//
// A cache as bytes: save, and restore into a cache of the same options and eviction. Only what is
// held is written, in order of position, so equal states give equal bytes wherever their slots lie.
//
//   magic "heedkv", version, order of bytes | shapes, scope, protections, eviction | per entry and
//   bank: counters, positions, what the eviction remembers | keys, values, gate keys | checksum
//
// The checksum (FNV-1a, 64 bits) sees every change of a single byte. A file that is damaged, cut,
// or of another cache is refused in one sentence and nothing is changed. Numbers are those of the
// machine; a file from one with another order of bytes is refused.

#pragma once

#include <fstream>
#include <istream>
#include <iterator>

#include "access.hpp"

namespace heed::inline HEED_ABI {
namespace detail {

inline constexpr char kMagic[] = "heedkv01";      // 8 characters: the version is the last two
inline constexpr std::int64_t kByteOrder = 0x0102030405060708;

inline std::uint64_t checksum(const char* data, std::size_t size) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<unsigned char>(data[i])) * 0x100000001b3u;
  }
  return hash;
}

class Writer {
 public:
  template <class T>
  void put(const T* data, Index count) {
    bytes_.append(reinterpret_cast<const char*>(data), sizeof(T) * std::size_t(count));
  }
  void number(Index n) { put(&n, 1); }
  void real(double x) { put(&x, 1); }
  std::string finish() && {
    const std::uint64_t sum = checksum(bytes_.data(), bytes_.size());
    put(&sum, 1);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

[[noreturn]] inline void refuse_file(const std::string& found, const std::string& expected) {
  contract::refuse("Cache::restore", found, expected);
}

// Reads what Writer wrote; never past the end.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {
    constexpr Index kSum = sizeof(std::uint64_t), kStart = 8;
    if (end_ - at_ < kSum + kStart || std::memcmp(at_, kMagic, 6) != 0) {
      refuse_file("the file does not begin like a cache", "one that Cache::save wrote");
    }
    if (std::memcmp(at_, kMagic, 8) != 0) {
      refuse_file("the file has version " + std::string(at_ + 6, 2), "01");
    }
    end_ -= kSum;
    std::uint64_t sum = 0;
    std::memcpy(&sum, end_, sizeof sum);
    if (sum != checksum(at_, std::size_t(end_ - at_))) {
      refuse_file("the checksum does not fit the file", "a file without damage");
    }
    at_ += kStart;
  }
  template <class T>
  void get(T* data, Index count) {
    if (count < 0 || count > (end_ - at_) / Index(sizeof(T))) {
      refuse_file("the file ends early", "a whole file");
    }
    if (count == 0) return;   // memcpy takes no null pointer, not even for nothing
    std::memcpy(static_cast<void*>(data), at_, sizeof(T) * std::size_t(count));
    at_ += Index(sizeof(T)) * count;
  }
  Index number() {
    Index n = 0;
    get(&n, 1);
    return n;
  }
  double real() {
    double x = 0;
    get(&x, 1);
    return x;
  }
  // A number that must be this.
  void expect(const char* what, Index expected) {
    const Index found = number();
    if (found == expected) return;
    refuse_file(std::string(what) + " of the file is " + contract::text(found),
                contract::text(expected));
  }
  Index at_most(const char* what, Index low, Index high) {
    const Index found = number();
    if (found >= low && found <= high) return found;
    refuse_file(std::string(what) + " of the file is " + contract::text(found),
                contract::text(low) + " to " + contract::text(high));
  }
  Index left() const { return end_ - at_; }

 private:
  const char* at_;
  const char* end_;
};

template <class E>
Index name_of() {
  std::string name = "custom";
  if constexpr (requires { E::name; }) name = E::name;
  return Index(checksum(name.data(), name.size()) >> 1);
}

// The head of a file: what must be equal, as (name, number).
template <class E, class F>
void each_trait(const Cache<E>& cache, Index sinks, F&& f) {
  const CacheOptions& o = cache.options();
  f("the order of bytes", kByteOrder);
  f("batch", o.batch);
  f("heads", o.heads);
  f("kv_heads", o.kv_heads);
  f("dim", o.dim);
  f("v_dim", o.v_dim);
  f("scope", Index(o.scope));
  f("sinks", sinks);
  f("protect_current", Index(o.protect_current));
  f("key_positions", Index(o.key_positions));
  f("gate_keys", Index(o.gate_keys));
  f("history", Index(o.history));
  f("the eviction", name_of<E>());
  f("numbers per slot", numbers<E>());
}

inline constexpr Index kFar = Index{1} << 62;

}  // namespace detail

template <Eviction E>
void Cache<E>::save(std::ostream& to) const {
  detail::Writer w;
  w.put(detail::kMagic, 8);
  detail::each_trait(*this, sinks_kept(), [&](const char*, Index n) { w.number(n); });
  for (const Entry& e : entries_) {
    for (const Index n : {e.seen, e.next_position, e.first_position}) w.number(n);
  }
  for (const Bank& bank : banks_) {
    const Slots& slots = bank.slots;
    for (const Index n : {bank.budget, slots.size(), bank.evicted, bank.evicted_until}) w.number(n);
    w.real(bank.survived);
    w.put(slots.positions(), slots.size());
    if constexpr (detail::numbers<E>() > 0) {
      E eviction = bank.eviction;
      for (Index rank = 0; rank < slots.size(); ++rank) {
        w.put(eviction.memory(slots.slot(rank)), detail::numbers<E>());
      }
    }
    w.number(Index(bank.came.size()));
    w.put(bank.came.data(), Index(bank.came.size()));
    w.put(bank.survival.data(), Index(bank.survival.size()));
  }
  for (Index b = 0; b < options_.batch; ++b) {
    for (Index g = 0; g < options_.kv_heads; ++g) {
      for (Index rank = 0; rank < size(b, g); ++rank) {
        w.put(key(b, g, rank).data, options_.dim);
        w.put(value(b, g, rank).data, options_.v_dim);
        if (options_.gate_keys) {
          w.put(stream(Source::gate, b, g) + slot(b, g, rank) * key_stride(), options_.dim);
        }
      }
    }
  }
  const std::string bytes = std::move(w).finish();
  to.write(bytes.data(), std::streamsize(bytes.size()));
  if (!to) contract::refuse("Cache::save", "the stream took no more bytes", "room for all");
}

template <Eviction E>
void Cache<E>::restore(std::istream& from) {
  const std::string bytes{std::istreambuf_iterator<char>(from), std::istreambuf_iterator<char>()};
  detail::Reader r(bytes);
  detail::each_trait(*this, sinks_kept(), [&](const char* what, Index n) { r.expect(what, n); });
  Cache fresh(options_, eviction_);
  constexpr Index kFar = detail::kFar;
  for (Entry& e : fresh.entries_) {
    e.seen = r.at_most("seen", 0, kFar);
    e.next_position = r.at_most("next_position", -kFar, kFar);
    e.first_position = r.at_most("first_position", -kFar, kFar);
  }
  for (Index i = 0; i < Index(banks_.size()); ++i) {
    Bank& bank = fresh.banks_[at(i)];
    const Index b = i / banks_per_entry(), per_bank = options_.kv_heads / banks_per_entry();
    const Index first = i % banks_per_entry() * per_bank;
    const Index budget = r.number();
    if (bank.budget >= 0 ? budget != bank.budget : budget < -1) {
      detail::refuse_file("the budget of the file is " + contract::text(budget),
                          contract::text(bank.budget));
    }
    const Index held = r.at_most("tokens held", 0, r.left() / Index(sizeof(Index)));
    if (!kUnbounded && held > std::max<Index>(budget, 0)) {
      detail::refuse_file("the file holds " + contract::text(held) + " tokens",
                          "at most the budget, " + contract::text(budget));
    }
    // No length is believed beyond what the rest of the file can hold.
    const Index rows = options_.dim + options_.v_dim + (options_.gate_keys ? options_.dim : 0);
    if (!kUnbounded && bank.budget < 0 && budget > 0) check_budget(budget, "Cache::restore");
    if (held > r.left() / (rows * Index(sizeof(float)))) {
      detail::refuse_file("the file ends early", "a whole file");
    }
    for (Index g = first; g < first + per_bank; ++g) {
      if (kUnbounded) {
        if (held > 0) fresh.make_room(b, g, held);
      } else if (bank.budget < 0 && budget >= 0) {
        fresh.make_room(b, g, budget + 1);
      }
    }
    bank.budget = budget;
    bank.evicted = r.at_most("evicted", 0, kFar);
    bank.evicted_until = r.at_most("evicted_until", -kFar, kFar);
    bank.survived = r.real();
    for (Index rank = 0; rank < held; ++rank) {
      const Index before = rank == 0 ? -kFar : bank.slots.position(rank - 1);
      bank.slots.append(r.at_most("a position", before + 1, kFar));
    }
    if constexpr (detail::numbers<E>() > 0) {
      for (Index rank = 0; rank < held; ++rank) {
        r.get(bank.eviction.memory(bank.slots.slot(rank)), detail::numbers<E>());
      }
    }
    const Index known = r.at_most("history", 0, r.left() / Index(sizeof(Index)));
    bank.came.resize(at(known));
    bank.survival.resize(at(known));
    r.get(bank.came.data(), known);
    r.get(bank.survival.data(), known);
  }
  for (Index b = 0; b < options_.batch; ++b) {
    for (Index g = 0; g < options_.kv_heads; ++g) {
      for (Index rank = 0; rank < fresh.size(b, g); ++rank) {
        const auto take = [&](Source s, Index stride, Index width) {
          float* const row = fresh.stream(s, b, g) + fresh.slot(b, g, rank) * stride;
          r.get(row, width);
          std::fill_n(row + width, stride - width, 0.0f);
        };
        take(Source::key, key_stride(), options_.dim);
        take(Source::value, value_stride(), options_.v_dim);
        if (options_.gate_keys) take(Source::gate, key_stride(), options_.dim);
      }
    }
  }
  if (r.left() != 0) detail::refuse_file("the file goes on after its end", "a whole file");
  *this = std::move(fresh);
}

template <Eviction E>
void Cache<E>::save(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  if (!file)
    contract::refuse("Cache::save", "the file " + path + " cannot be written", "a writable one");
  save(file);
}
template <Eviction E>
void Cache<E>::restore(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    contract::refuse("Cache::restore", "the file " + path + " cannot be read", "a readable one");
  restore(file);
}

}  // namespace heed::inline HEED_ABI
