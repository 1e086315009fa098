// SPDX-License-Identifier: Apache-2.0
//
// R38: every input and output ends, and in a second run begins, at a page without access. Reads
// past the end that are thrown away look right until that page is unmapped.

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "support/policies.hpp"

namespace support {
namespace {

// Memory between two pages without access, flush against one of them.
class Guarded {
 public:
  Guarded(std::size_t bytes, bool at_end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t body = (bytes + page - 1) / page * page;
    length_ = body + 2 * page;
    void* map = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(map);
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + body, page, PROT_NONE);
    data_ = at_end ? base_ + page + body - bytes : base_ + page;
  }
  Guarded(const Guarded&) = delete;
  ~Guarded() { munmap(base_, length_); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  char* base_ = nullptr;
  char* data_ = nullptr;
  std::size_t length_ = 0;
};

struct GuardedFloats : Guarded {
  GuardedFloats(const std::vector<float>& x, bool at_end) : Guarded(x.size() * 4, at_end) {
    if (!x.empty()) std::memcpy(as<float>(), x.data(), x.size() * 4);
  }
  GuardedFloats(Index n, bool at_end) : Guarded(size(n) * 4, at_end) {}
};

// One call with everything guarded; the result must be that of ordinary memory.
template <class... Policies>
void expect_within(const Extents& e, bool at_end, const Policies&... policies) {
  const World w(e, Filling::normal, 1);
  const Outputs expected = attended(w, policies...);
  const GuardedFloats q(w.data.q, at_end), k(w.data.k, at_end), v(w.data.v, at_end);
  const Index rows = e.batch * e.heads * e.q_len;
  const GuardedFloats out(rows * e.v_dim, at_end), lse(rows, at_end), entropy(rows, at_end);
  const GuardedFloats weights(rows * e.kv_len, at_end);
  heed::Into into;
  into.out = {out.as<float>(), {e.batch, e.heads, e.q_len, e.v_dim}};
  into.lse = {lse.as<float>(), {e.batch, e.heads, e.q_len}};
  into.entropy = {entropy.as<float>(), {e.batch, e.heads, e.q_len}};
  into.weights.to = {weights.as<float>(), {e.batch, e.heads, e.q_len, e.kv_len}};
  heed::attend(into, heed::View<const float>(q.as<float>(), {e.batch, e.heads, e.q_len, e.dim}),
               heed::View<const float>(k.as<float>(), {e.batch, e.kv_heads, e.kv_len, e.dim}),
               heed::View<const float>(v.as<float>(), {e.batch, e.kv_heads, e.kv_len, e.v_dim}),
               policies...);
  const auto found = [](const GuardedFloats& g, std::size_t n) {
    return std::vector<float>(g.as<float>(), g.as<float>() + n);
  };
  ASSERT_TRUE(same_bits(expected.out, found(out, expected.out.size())));
  ASSERT_TRUE(same_bits(expected.weights, found(weights, expected.weights.size())));
}

TEST(GuardPages, R38EveryDimStaysInside) {
  for (const bool at_end : {true, false}) {
    for (Index dim = 1; dim <= 65; ++dim)
      expect_within({1, 2, 1, 3, 5, dim, dim}, at_end, heed::causal);
  }
}
TEST(GuardPages, R38EveryNumberOfKeysStaysInside) {
  for (const bool at_end : {true, false}) {
    for (Index t = 1; t <= 65; ++t) expect_within({1, 2, 1, t, t, 5, 7}, at_end, heed::causal);
  }
}
TEST(GuardPages, R38MaskedBlocksStayInside) {
  for (const bool at_end : {true, false}) {
    for (const Index t : {1, 15, 16, 17, 63, 64, 65, 130}) {
      expect_within({1, 1, 1, 3, t, 3, 17}, at_end, heed::causal & heed::Window{5});
    }
  }
}
TEST(GuardPages, R38TablesStayInside) {
  for (const bool at_end : {true, false}) {
    for (const Index dim : {1, 3, 7, 16, 17, 33}) {
      for (const Index rows : {1, 2, 16, 65}) {
        Random r(2);
        const GuardedFloats table(normals(r, rows * dim, 1), at_end);
        const heed::TableView view(table.as<float>(), 1, rows, dim);
        expect_within({1, 2, 1, 9, 70, dim, dim}, at_end, heed::causal, heed::Cope{view});
        expect_within({1, 2, 1, 9, 70, dim, dim}, at_end, heed::causal,
                      heed::Relative{.table = view});
      }
    }
  }
}
TEST(GuardPages, R38GateKeysStayInside) {
  for (const bool at_end : {true, false}) {
    for (const Index t : {1, 17, 65}) {
      Random r(3);
      const GuardedFloats gates(normals(r, t * 5, 1), at_end), table(normals(r, 9 * 5, 1), at_end);
      expect_within({1, 2, 1, t, t, 5, 5}, at_end, heed::causal,
                    heed::Cope{heed::TableView(table.as<float>(), 1, 9, 5)}.gate_keys(
                        heed::View<const float>(gates.as<float>(), {1, 1, t, 5})));
    }
  }
}
TEST(GuardPages, R38RotatedKeysStayInside) {
  for (const bool at_end : {true, false}) {
    for (const Index dim : {2, 6, 8, 34, 66}) {
      expect_within({1, 2, 1, 5, 33, dim, dim}, at_end, heed::causal,
                    heed::Rope{.pairing = heed::Pairing::halves});
      expect_within({1, 2, 1, 5, 33, dim, dim}, at_end, heed::causal,
                    heed::Rope{.pairing = heed::Pairing::neighbours});
    }
  }
}
TEST(GuardPages, R38MasksAndBiasesStayInside) {
  for (const bool at_end : {true, false}) {
    for (const Index t : {1, 15, 43, 64, 65}) {
      Random r(4);
      const GuardedFloats bias(normals(r, 3 * t, 1), at_end);
      const Guarded keep(size(3 * t), at_end);
      for (Index i = 0; i < 3 * t; ++i) keep.as<bool>()[i] = i % 3 != 0;
      expect_within({1, 1, 1, 3, t, 4, 4}, at_end,
                    heed::DenseMask{heed::View<const bool>(keep.as<bool>(), {1, 1, 3, t})},
                    heed::Bias{heed::View<const float>(bias.as<float>(), {1, 1, 3, t})});
    }
  }
}

}  // namespace
}  // namespace support
