// SPDX-License-Identifier: Apache-2.0
//
// The state of one layer while decoding: keys and values in slots, each with its own absolute
// position, bounded by a budget that an eviction keeps (the decoder as a recurrent network with a
// state of fixed size: Oren et al., arXiv 2401.06104).
//
// A bank is the set of heads that share slots: all heads of a batch entry under Scope::layer, one
// kv head under Scope::head. A bank owns budget + 1 slots: a step appends, attends, observes, then
// evicts, so at most `budget` tokens are held after every call. Three numbers are kept apart per
// batch entry: tokens ever seen, tokens held, room. Memory: slots x (dim + v_dim) floats per kv
// head. decode() and prefill() change a cache; a call that throws std::invalid_argument has not.

#pragma once

#include <cstring>
#include <iosfwd>
#include <string>

#include "../tile/block.hpp"
#include "options.hpp"
#include "scratch.hpp"

namespace heed::inline HEED_ABI {

template <Eviction E = Unbounded>
class Cache;
namespace detail {
struct CacheAccess;
}

template <Eviction E>
class Cache {
 public:
  static constexpr bool kUnbounded = std::same_as<E, Unbounded>;

  // Throws std::invalid_argument for numbers that do not fit together, std::bad_alloc.
  explicit Cache(CacheOptions options, E eviction = {})
      : options_(std::move(options)), eviction_(std::move(eviction)) {
    if (options_.kv_heads == 0) options_.kv_heads = options_.heads;
    if (options_.v_dim == 0) options_.v_dim = options_.dim;
    if (options_.scope == Scope::policy) options_.scope = E::scope;
    check();
    entries_.resize(at(options_.batch));
    banks_.resize(at(options_.batch * banks_per_entry()));
    stores_.resize(at(options_.batch * options_.kv_heads));
    for (Bank& bank : banks_) bank.eviction = eviction_;
    if (options_.budget_share > 0 || kUnbounded) return;
    for (Index b = 0; b < options_.batch; ++b) {
      for (Index g = 0; g < options_.kv_heads; ++g) {
        set_budget(b, g, options_.budgets.empty() ? options_.budget : options_.budgets[at(g)]);
      }
    }
  }
  // A copy is a fork: the same tokens, from here on independent.
  Cache(const Cache& other)
      : options_(other.options_),
        eviction_(other.eviction_),
        entries_(other.entries_),
        banks_(other.banks_) {
    for (const Store& store : other.stores_) stores_.push_back(store.copy());
  }
  Cache& operator=(const Cache& other) { return *this = Cache(other); }
  Cache(Cache&& other) noexcept = default;
  Cache& operator=(Cache&& other) noexcept = default;

  const CacheOptions& options() const { return options_; }
  // Tokens ever seen by a batch entry, and the position that its next token gets by default.
  Index seen(Index b = 0) const { return entry(b).seen; }
  Index next_position(Index b = 0) const { return entry(b).next_position; }
  // Of the bank that this kv head belongs to: its slots in order of position, its budget (-1 while
  // a share waits for its prompt; for an unbounded cache, the room at present).
  const Slots& slots(Index b = 0, Index kv_head = 0) const { return bank(b, kv_head).slots; }
  Index budget(Index b = 0, Index kv_head = 0) const {
    return kUnbounded ? slots(b, kv_head).room() : bank(b, kv_head).budget;
  }
  Index size(Index b = 0, Index kv_head = 0) const { return slots(b, kv_head).size(); }
  List<Index> positions(Index b = 0, Index kv_head = 0) const {
    return {slots(b, kv_head).positions(), size(b, kv_head)};
  }
  // The stored key (encoded, unless positions are in_cache) and value at a rank.
  List<float> key(Index b, Index kv_head, Index rank) const {
    return {stream(Source::key, b, kv_head) + slot(b, kv_head, rank) * key_stride(), options_.dim};
  }
  List<float> value(Index b, Index kv_head, Index rank) const {
    return {stream(Source::value, b, kv_head) + slot(b, kv_head, rank) * value_stride(),
            options_.v_dim};
  }
  // How many further tokens each position saw come before it went; -1 while it is held. Empty
  // without CacheOptions::history. By order of coming.
  List<Index> survival(Index b = 0, Index kv_head = 0) const { return bank(b, kv_head).survival; }
  // What is stored of keys, values and gate keys.
  Index bytes() const {
    Index sum = 0;
    for (const Store& store : stores_) sum += store.memory.size() * Index(sizeof(float));
    return sum;
  }
  CacheStatistics statistics(Index b = 0, Index kv_head = 0) const {
    const Bank& of = bank(b, kv_head);
    CacheStatistics s{seen(b), of.slots.size(), budget(b, kv_head)};
    const Index older = of.slots.rank_of(next_position(b) - s.budget);
    s.recent_share = s.held == 0 ? 0 : double(s.held - older) / double(s.held);
    s.first_held = s.held > 0 && of.slots.position(0) == entry(b).first_position;
    s.evicted = of.evicted;
    s.mean_survival = of.evicted == 0 ? 0 : of.survived / double(of.evicted);
    return s;
  }

  // Forgets every token; budgets from a share wait for a prompt again.
  void reset() {
    for (Index b = 0; b < options_.batch; ++b) reset(b);
  }
  void reset(Index b) {
    entry_checked("reset", b) = Entry{};
    for (Index g = 0; g < banks_per_entry(); ++g) {
      Bank& of = banks_[at(b * banks_per_entry() + g)];
      const Index budget = options_.budget_share > 0 ? -1 : of.budget;
      Bank fresh;
      fresh.eviction = eviction_;
      fresh.budget = budget;
      fresh.slots = std::move(of.slots);
      fresh.slots.clear();
      detail::reset(fresh.eviction, fresh.slots.room());
      of = std::move(fresh);
    }
  }
  // Takes tokens at and beyond `position` back, as if they had never come. Refused when a token of
  // the entry has been evicted since, or when the eviction remembers their weights.
  void truncate(Index b, Index position) {
    using contract::text;
    Entry& of = entry_checked("truncate", b);
    if (position >= of.next_position) return;
    for (Index g = 0; g < banks_per_entry(); ++g) {
      const Bank& bank = banks_[at(b * banks_per_entry() + g)];
      if (bank.evicted_until > position) {
        contract::refuse("Cache::truncate",
                         "position is " + text(position) + ", and tokens went to make room up to " +
                             text(bank.evicted_until),
                         "at least " + text(bank.evicted_until) + ", or reset");
      }
    }
    if constexpr (detail::watches<E>() == Watches::every) {
      contract::refuse("Cache::truncate",
                       "the eviction has counted the weights of the tokens to be taken back",
                       "an eviction that remembers nothing, or reset");
    }
    Index removed = 0;
    for (Index g = 0; g < banks_per_entry(); ++g) {
      Bank& bank = banks_[at(b * banks_per_entry() + g)];
      removed = 0;
      while (bank.slots.size() > 0 && bank.slots.position(bank.slots.size() - 1) >= position) {
        detail::forget(bank.eviction, bank.slots.remove(bank.slots.size() - 1));
        ++removed;
      }
      if (options_.history) bank.survival.resize(bank.survival.size() - at(removed));
    }
    of.seen -= removed;
    of.next_position = 0;
    for (Index g = 0; g < banks_per_entry(); ++g) {
      const Bank& bank = banks_[at(b * banks_per_entry() + g)];
      const Index held = bank.slots.size();
      if (held > 0)
        of.next_position = std::max(of.next_position, bank.slots.position(held - 1) + 1);
      of.next_position = std::max(of.next_position, bank.evicted_until);
    }
  }

  // Everything as bytes, and back into a cache of the same options and eviction: save.hpp.
  void save(std::ostream& to) const;
  void save(const std::string& path) const;
  void restore(std::istream& from);
  void restore(const std::string& path);

 private:
  friend struct detail::CacheAccess;

  struct Entry {
    Index seen = 0, next_position = 0, first_position = 0;
  };
  struct Bank {
    Slots slots;
    E eviction;
    Index budget = -1;
    Index evicted = 0, evicted_until = 0;   // evicted_until: next_position at the last eviction
    double survived = 0;
    std::vector<Index> survival{}, came{};  // with history: per token seen; came: its position
  };
  // Keys, values and gate keys of one kv head of one batch entry: [room][stride] each.
  struct Store {
    Buffer<float> memory;
    Index room = 0;

    Store copy() const {
      Store result{Buffer<float>(memory.size()), room};
      if (memory.size() > 0) {
        std::memcpy(result.memory.data(), memory.data(),
                    sizeof(float) * std::size_t(memory.size()));
      }
      return result;
    }
  };

  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  static Index padded(Index n) { return (n + simd::kPad - 1) / simd::kPad * simd::kPad; }

  void check() const {
    const CacheOptions& o = options_;
    using contract::text;
    const auto expect = [](bool good, const std::string& found, const std::string& expected) {
      if (!good) contract::refuse("Cache", found, expected);
    };
    expect(o.batch >= 1, "batch is " + text(o.batch), "at least 1");
    expect(o.heads >= 1, "heads is " + text(o.heads), "at least 1");
    expect(o.kv_heads >= 1 && o.heads % o.kv_heads == 0, "kv_heads is " + text(o.kv_heads),
           "a divisor of heads, " + text(o.heads));
    expect(o.dim >= 1, "dim is " + text(o.dim), "at least 1");
    expect(o.v_dim >= 1, "v_dim is " + text(o.v_dim), "at least 1, or 0 for dim");
    expect(o.sinks >= 0, "sinks is " + text(o.sinks), "at least 0");
    if constexpr (kUnbounded) {
      expect(o.budget == 0 && o.budget_share == 0 && o.budgets.empty(),
             "a budget without an eviction", "one of heed::Tova, HeavyHitters, Oldest beside it");
      return;
    }
    if (!o.budgets.empty()) {
      expect(o.budget == 0 && o.budget_share == 0, "budgets beside another budget", "one of them");
      expect(o.scope == Scope::head, "budgets per kv head with slots shared by the layer",
             "Scope::head");
      expect(Index(o.budgets.size()) == o.kv_heads, "budgets has " + text(Index(o.budgets.size())) +
             " numbers", "one per kv head, " + text(o.kv_heads));
      for (const Index budget : o.budgets) check_budget(budget);
    } else if (o.budget_share != 0) {
      expect(o.budget == 0, "budget and budget_share both given", "one of them");
      expect(o.budget_share > 0 && o.budget_share <= 1, "budget_share is " + text(o.budget_share),
             "above 0 and at most 1");
    } else {
      check_budget(o.budget);
    }
  }
  // sinks + protected + 1 <= budget: something must be free to go.
  void check_budget(Index budget, const char* function = "Cache") const {
    using contract::text;
    const Index newest = newest_kept(budget), sinks = sinks_kept();
    if (sinks < 0 || newest < 0) {
      contract::refuse(function, "the eviction protects " + text(sinks) + " sinks and " +
                                     text(newest) + " of the newest tokens",
                       "numbers that are not negative");
    }
    if (budget >= 1 && sinks + newest + 1 <= budget) return;
    contract::refuse(function, "budget is " + text(budget),
                     "at least sinks + newest kept + 1 = " + text(sinks) + " + " + text(newest) +
                         " + 1");
  }
  Index sinks_kept() const {
    const Index own = detail::sinks_of(eviction_);
    return own < 0 ? own : std::max(options_.sinks, own);
  }
  Index newest_kept(Index budget) const {
    const Index own = detail::newest_of(eviction_, budget);
    return own < 0 ? own : std::max<Index>(options_.protect_current ? 1 : 0, own);
  }

  Index banks_per_entry() const { return options_.scope == Scope::head ? options_.kv_heads : 1; }
  Index bank_index(Index b, Index kv_head) const {
    return options_.scope == Scope::head ? b * options_.kv_heads + kv_head : b;
  }
  const Entry& entry(Index b) const { return entries_[at(b)]; }
  Entry& entry_checked(const char* function, Index b) {
    if (b >= 0 && b < options_.batch) return entries_[at(b)];
    contract::refuse((std::string("Cache::") + function).c_str(),
                     "batch entry " + contract::text(b),
                     "one in [0, " + contract::text(options_.batch) + ")");
  }
  const Bank& bank(Index b, Index kv_head) const { return banks_[at(bank_index(b, kv_head))]; }
  Bank& bank(Index b, Index kv_head) { return banks_[at(bank_index(b, kv_head))]; }
  Index slot(Index b, Index kv_head, Index rank) const { return slots(b, kv_head).slot(rank); }

  Index key_stride() const { return padded(options_.dim); }
  Index value_stride() const { return padded(options_.v_dim); }
  const float* stream(Source source, Index b, Index kv_head) const {
    const Store& store = stores_[at(b * options_.kv_heads + kv_head)];
    const Index skip = source == Source::key     ? 0
                       : source == Source::value ? key_stride()
                                                 : key_stride() + value_stride();
    return store.memory.data() + store.room * skip;
  }
  float* stream(Source source, Index b, Index kv_head) {
    return const_cast<float*>(std::as_const(*this).stream(source, b, kv_head));
  }

  void set_budget(Index b, Index kv_head, Index budget) {
    bank(b, kv_head).budget = budget;
    make_room(b, kv_head, budget + 1);
  }
  // Slots for `room` tokens; what is held stays where it is.
  void make_room(Index b, Index kv_head, Index room) {
    Store& store = stores_[at(b * options_.kv_heads + kv_head)];
    if (store.room < room) {
      const Index strides[] = {key_stride(), value_stride(), options_.gate_keys ? key_stride() : 0};
      const Index per_slot = strides[0] + strides[1] + strides[2];
      Store larger{Buffer<float>(contract::product("Cache", "a bank of slots", room, per_slot)),
                   room};
      Index from = 0, to = 0;
      for (const Index stride : strides) {
        std::copy_n(store.memory.data() + from, store.room * stride, larger.memory.data() + to);
        from += store.room * stride;
        to += room * stride;
      }
      store = std::move(larger);
    }
    Bank& of = bank(b, kv_head);
    if (of.slots.room() >= room) return;
    const bool fresh = of.slots.size() == 0;
    of.slots.grow(room);
    if (fresh) detail::reset(of.eviction, room);
  }

  CacheOptions options_;
  E eviction_;                   // as given; every bank has its own copy
  std::vector<Entry> entries_;   // [batch]
  std::vector<Bank> banks_;      // [batch * banks_per_entry]
  std::vector<Store> stores_;    // [batch * kv_heads]
  std::unique_ptr<detail::CacheScratch> scratch_ = std::make_unique<detail::CacheScratch>();
};
Cache(CacheOptions) -> Cache<Unbounded>;
template <class E>
Cache(CacheOptions, E) -> Cache<E>;

}  // namespace heed::inline HEED_ABI
