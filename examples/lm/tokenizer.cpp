// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary is kept as bytes: the file writes them in GPT-2's alphabet of 256 printable
// characters, which is undone once, at loading. Merges are kept as pairs of ids. All tables are
// sorted arrays, a few bytes per entry, so a hostile vocabulary costs no more than its file.

#include "tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "byte_alphabet.hpp"
#include "words.hpp"

namespace lm {
namespace {

// Token types of the format.
enum Kind : std::uint32_t { kNormal = 1, kUnknown, kControl, kUser, kUnused, kByte, kKinds };

struct Merge {
  std::uint64_t pair;  // left id, right id
  std::int32_t rank, id;
};
constexpr std::uint64_t pair_of(int left, int right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(const Gguf& file);
  std::string_view piece(int id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(bytes).substr(begin[i], begin[i + 1] - begin[i]);
  }
  int size() const { return static_cast<int>(kind.size()); }
  bool takes_part(int id) const { return word[static_cast<std::size_t>(id)]; }

  void read_tokens(const Gguf& file);
  void read_merges(const Gguf& file, std::span<const int> sorted);
  void find_specials(std::span<const int> sorted);
  std::optional<int> optional_id(const Gguf& file, std::string_view key) const;
  const Merge* merge(int left, int right) const;
  std::optional<int> special_at(std::string_view text, bool control) const;
  void encode_plain(std::string_view text, std::vector<int>& ids) const;
  void encode_word(std::string_view text, std::vector<int>& ids) const;

  Words words;
  std::string bytes;  // of all tokens, one after the other
  std::vector<std::size_t> begin;
  std::vector<std::uint8_t> kind;
  std::vector<bool> word;           // tokens that words are made of
  std::vector<Merge> merges;        // sorted by pair
  std::array<int, 256> id_of_byte;  // or size() + byte
  struct Special {
    int id, shorter;  // the next shorter special that this one begins with, or -1
  };
  std::vector<Special> specials;   // sorted by text
  std::array<bool, 256> begins{};  // bytes that a special begins with
  std::optional<int> bos, eos;
  bool wants_bos = false;
};

Tokenizer::Parts::Parts(const Gguf& file)
    : words([&] {
        const std::string_view model = file.get_string("tokenizer.ggml.model");
        if (model != "gpt2") {
          throw Error(file.name() + ": has a tokenizer of the kind " + quoted(model) +
                      "; this program reads gpt2");
        }
        return Words(file.get_string("tokenizer.ggml.pre"));
      }()) {
  read_tokens(file);
  // The first of several tokens with the same bytes counts.
  std::vector<int> sorted(kind.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(
      sorted, [&](int a, int b) { return std::tuple(piece(a), a) < std::tuple(piece(b), b); });
  read_merges(file, sorted);
  find_specials(sorted);
  bos = optional_id(file, "tokenizer.ggml.bos_token_id");
  eos = optional_id(file, "tokenizer.ggml.eos_token_id");
  wants_bos = file.get_bool("tokenizer.ggml.add_bos_token", false);
  if (wants_bos && !bos) throw Error(file.name() + ": asks for a start token and names none");
}

void Tokenizer::Parts::read_tokens(const Gguf& file) {
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (tokens.empty() || tokens.size() > std::numeric_limits<int>::max() - 256u) {
    throw Error(file.name() + ": has a vocabulary of " + std::to_string(tokens.size()) + " tokens");
  }
  const bool typed = file.has("tokenizer.ggml.token_type");
  const auto types = typed ? file.get_u32s("tokenizer.ggml.token_type")
                           : std::vector<std::uint32_t>(tokens.size(), kNormal);
  if (types.size() != tokens.size()) {
    throw Error(file.name() + ": has " + std::to_string(tokens.size()) + " tokens and " +
                std::to_string(types.size()) + " token types");
  }
  begin.reserve(tokens.size() + 1);
  begin.push_back(0);
  kind.reserve(tokens.size());
  word.reserve(tokens.size());
  for (int b = 0; b < 256; ++b) {
    id_of_byte[static_cast<std::size_t>(b)] = static_cast<int>(tokens.size()) + b;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (types[i] < kNormal || types[i] >= kKinds) {
      throw Error(file.name() + ": token " + std::to_string(i) + " has the unknown type " +
                  std::to_string(types[i]));
    }
    // Text outside the alphabet stands for itself, and no word is made of it.
    const bool plain = types[i] == kNormal && append_bytes(tokens[i], bytes);
    if (!plain) bytes += tokens[i];
    begin.push_back(bytes.size());
    kind.push_back(static_cast<std::uint8_t>(types[i]));
    word.push_back(plain);
    if (plain && begin[i + 1] - begin[i] == 1) {
      int& id = id_of_byte[static_cast<unsigned char>(bytes.back())];
      id = std::min(id, static_cast<int>(i));
    }
  }
}

void Tokenizer::Parts::read_merges(const Gguf& file, std::span<const int> sorted) {
  const auto lines = file.get_strings("tokenizer.ggml.merges");
  merges.reserve(lines.size());
  std::string joined;
  const auto id_of = [&](std::string_view text) {
    auto it = std::ranges::lower_bound(sorted, text, {}, [&](int id) { return piece(id); });
    while (it != sorted.end() && piece(*it) == text && !takes_part(*it)) ++it;
    return it != sorted.end() && piece(*it) == text ? *it : -1;
  };
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string_view line = lines[rank];
    const std::size_t gap = line.find(' ');
    joined.clear();
    bool good = gap != line.npos && gap > 0 && append_bytes(line.substr(0, gap), joined);
    const std::size_t middle = joined.size();
    good = good && append_bytes(line.substr(gap + 1), joined) && joined.size() > middle;
    const std::string_view all = joined;
    const int left = good ? id_of(all.substr(0, middle)) : -1;
    const int right = good ? id_of(all.substr(middle)) : -1;
    const int id = good ? id_of(all) : -1;
    if (left < 0 || right < 0 || id < 0) {
      throw Error(file.name() + ": merge " + std::to_string(rank) + ", " + quoted(line) +
                  ", does not join two tokens to a third");
    }
    merges.push_back({pair_of(left, right), static_cast<std::int32_t>(rank), id});
  }
  std::ranges::sort(merges, {}, [](const Merge& m) { return std::pair(m.pair, m.rank); });
}

void Tokenizer::Parts::find_specials(std::span<const int> sorted) {
  std::vector<int> open;  // specials that the one before begins with, and itself
  for (const int id : sorted) {
    const auto type = kind[static_cast<std::size_t>(id)];
    const std::string_view text = piece(id);
    if ((type != kControl && type != kUser) || text.empty()) continue;
    const auto held = [&](int i) {
      return text.starts_with(piece(specials[static_cast<std::size_t>(i)].id));
    };
    while (!open.empty() && !held(open.back())) open.pop_back();
    const int shorter = open.empty() ? -1 : open.back();
    open.push_back(static_cast<int>(specials.size()));
    specials.push_back({id, shorter});
    begins[static_cast<unsigned char>(text[0])] = true;
  }
}

std::optional<int> Tokenizer::Parts::optional_id(const Gguf& file, std::string_view key) const {
  if (!file.has(key)) return {};
  const auto id = file.get_u32(key);
  if (id >= kind.size()) {
    throw Error(file.name() + ": " + quoted(key) + " is " + std::to_string(id) +
                ", outside the vocabulary of " + std::to_string(kind.size()));
  }
  return static_cast<int>(id);
}

const Merge* Tokenizer::Parts::merge(int left, int right) const {
  const auto pair = pair_of(left, right);
  const auto it = std::ranges::lower_bound(merges, pair, {}, &Merge::pair);
  return it != merges.end() && it->pair == pair ? &*it : nullptr;
}

// The longest special at the front of `text`. All that `text` begins with are beginnings of the
// last special that sorts before it.
std::optional<int> Tokenizer::Parts::special_at(std::string_view text, bool control) const {
  if (!begins[static_cast<unsigned char>(text[0])]) return {};
  const auto after =
      std::ranges::upper_bound(specials, text, {}, [&](const Special& s) { return piece(s.id); });
  for (auto i = static_cast<int>(after - specials.begin()) - 1; i >= 0;) {
    const Special& special = specials[static_cast<std::size_t>(i)];
    const bool asked = control || kind[static_cast<std::size_t>(special.id)] == kUser;
    if (asked && text.starts_with(piece(special.id))) return special.id;
    i = special.shorter;
  }
  return {};
}

void Tokenizer::Parts::encode_plain(std::string_view text, std::vector<int>& ids) const {
  if (text.empty()) return;
  for (const std::string_view part : words.split(text)) encode_word(part, ids);
}

// Neighbours wait in a queue by rank, then from left to right; a pair that has changed meanwhile
// is passed over when its turn comes.
void Tokenizer::Parts::encode_word(std::string_view text, std::vector<int>& ids) const {
  struct Symbol {
    int id;  // -1: joined to the one before
    std::ptrdiff_t before, after;
  };
  struct Candidate {
    std::int32_t rank;
    std::ptrdiff_t at;
    std::uint64_t pair;
    int id;
    bool operator<(const Candidate& other) const {  // the queue's top is its largest
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };
  const auto n = std::ssize(text);
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
    symbols.push_back({id_of_byte[byte], i - 1, i + 1});
  }
  const auto symbol = [&](std::ptrdiff_t i) -> Symbol& {
    return symbols[static_cast<std::size_t>(i)];
  };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::ptrdiff_t left, std::ptrdiff_t right) {
    if (left < 0 || right >= n) return;
    if (const Merge* m = merge(symbol(left).id, symbol(right).id)) {
      queue.push({m->rank, left, m->pair, m->id});
    }
  };
  for (std::ptrdiff_t i = 0; i + 1 < n; ++i) consider(i, i + 1);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbol(best.at);
    if (left.id < 0 || left.after >= n) continue;
    Symbol& right = symbol(left.after);
    if (pair_of(left.id, right.id) != best.pair) continue;
    left.id = best.id;
    left.after = right.after;
    right.id = -1;
    if (left.after < n) symbol(left.after).before = best.at;
    consider(left.before, best.at);
    consider(best.at, left.after);
  }
  for (const Symbol& s : symbols) {
    if (s.id >= 0) ids.push_back(s.id);
  }
}

Tokenizer::Tokenizer(const Gguf& file) : parts_(std::make_unique<const Parts>(file)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<int> Tokenizer::encode(std::string_view text, bool parse_special) const {
  std::vector<int> ids;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto id = parts_->special_at(text.substr(i), parse_special);
    if (!id) {
      ++i;
      continue;
    }
    parts_->encode_plain(text.substr(begin, i - begin), ids);
    ids.push_back(*id);
    i += parts_->piece(*id).size();
    begin = i;
  }
  parts_->encode_plain(text.substr(begin), ids);
  return ids;
}

std::vector<int> Tokenizer::prompt(std::string_view text, bool parse_special) const {
  std::vector<int> ids = encode(text, parse_special);
  const bool there = !ids.empty() && ids.front() == parts_->bos;
  if (parts_->wants_bos && !there) ids.insert(ids.begin(), *parts_->bos);
  return ids;
}

std::vector<int> Tokenizer::known(std::vector<int> ids) const {
  std::erase_if(ids, [&](int id) { return id >= parts_->size(); });
  return ids;
}

std::string Tokenizer::piece(int id) const {
  if (id < 0 || id - size() > 255) {
    throw Error("there is no token " + std::to_string(id) + "; the vocabulary has " +
                std::to_string(size()));
  }
  if (id >= size()) return {static_cast<char>(id - size())};
  return std::string(parts_->piece(id));
}

std::string Tokenizer::decode(std::span<const int> ids) const {
  std::string text;
  for (const int id : ids) text += piece(id);
  return text;
}

int Tokenizer::size() const { return parts_->size(); }
std::optional<int> Tokenizer::bos() const { return parts_->bos; }
std::optional<int> Tokenizer::eos() const { return parts_->eos; }
bool Tokenizer::is_control(int id) const {
  return id >= 0 && id < size() && parts_->kind[static_cast<std::size_t>(id)] == kControl;
}

}  // namespace lm
