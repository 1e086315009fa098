// SPDX-License-Identifier: Apache-2.0
//
// Training: attend_saving is attend that also keeps lse; attend_backward gives the gradients of
// q, k, v and of every policy's parameters, with memory linear in the length.
//
//   const auto policy = pack(causal, Cope{table});
//   auto saved = attend_saving([device,] q, k, v, policy);              saved.out
//   auto grad  = attend_backward([device,] q, k, v, saved, dout, policy);
//   grad.q  grad.k  grad.v  grad.gate_keys()  grad.of<Cope>().table()
//
// The form attend_backward([device,] GradientsInto{...}, q, k, v, out, lse, dout, policies...)
// writes into the caller's memory and returns the policies' gradients. Jobs are (batch, kv head),
// and where those are few, a number of row ranges fixed by the shape, added up in order: the same
// bits for any number of threads. Throws as attend does.

#pragma once

#include "backward.hpp"

namespace heed::inline HEED_ABI {
namespace detail {

// Row ranges per (batch, kv head): enough for a few threads where heads are few.
inline Index row_ranges(const Shape& s) {
  constexpr Index kJobs = 8;
  const Index heads = s.batch * s.kv_heads, blocks = Blocks(s).count;
  return std::clamp<Index>(heads == 0 ? 1 : kJobs / heads, 1, std::max<Index>(blocks, 1));
}

inline void check_gradients_into(const GradientsInto& into, const Shape& s, bool gate_keys) {
  const auto check = [&](const char* name, const View<float>& view,
                         const std::array<Index, 4>& expected) {
    contract::same_shape(s.function, name, view.extent, expected);
    if (view.data == nullptr && !view.empty()) {
      contract::refuse(s.function, std::string("GradientsInto has no ") + name,
                       "views for q, k and v");
    }
  };
  check("the gradient of q", into.q, {s.batch, s.heads, s.q_len, s.dim});
  check("the gradient of k", into.k, {s.batch, s.kv_heads, s.kv_len, s.dim});
  check("the gradient of v", into.v, {s.batch, s.kv_heads, s.kv_len, s.v_dim});
  if (gate_keys) {
    check("the gradient of the gate keys", into.gate_keys,
          {s.batch, s.kv_heads, s.kv_len, s.dim});
  } else if (into.gate_keys.data != nullptr) {
    contract::refuse(s.function, "GradientsInto has gate_keys", "them only with Cope::gate_keys");
  }
}

inline void fill_zero(const View<float>& view) {
  for (Index b = 0; b < view.batch(); ++b) {
    for (Index h = 0; h < view.heads(); ++h) {
      for (Index t = 0; t < view.time() && view.dim() != 0; ++t) {
        std::fill_n(view.row(b, h, t), view.dim(), 0.0f);
      }
    }
  }
}

template <class... Ps>
class BackwardPass {
 public:
  using Reads = Operands<Ps...>;
  using Parameters = PolicyGradients<Ps...>;

  BackwardPass(const Reads& operands, const Upstream& upstream, const GradientsInto& into)
      : operands_(operands),
        upstream_(upstream),
        into_(into),
        shape_(operands.shape),
        ranges_(row_ranges(shape_)),
        source_(operands.pack.gate_stream().source),
        partials_(std::size_t(shape_.batch * shape_.kv_heads * ranges_)) {}

  template <class E>
  Parameters run(E&& executor) {
    const Index heads = shape_.batch * shape_.kv_heads;
    heed::run(executor, heads * ranges_, [&](Index job) { add_up(job / ranges_, job % ranges_); });
    if (ranges_ > 1) {
      heed::run(executor, heads, [&](Index head) { write_keys(head); });
    }
    Parameters total(operands_.pack, shape_);
    for (Partial& partial : partials_) {
      total += partial.parameters;
      partial.parameters = Parameters();
    }
    return total;
  }

 private:
  // One range's sums: k, v and gate keys, each [kv_len][padded width].
  struct Partial {
    Buffer<float> sums;
    Parameters parameters;
  };

  KeyGradients sums(Partial& partial) const {
    const Index dim = operands_.padded_dim, width = operands_.padded_width;
    KeyGradients result;
    result.k = partial.sums.data();
    result.v = result.k + shape_.kv_len * dim;
    if (source_ == Source::gate) result.gate = result.v + shape_.kv_len * width;
    if (source_ == Source::value) result.gate = result.v;
    return result;
  }
  Index sums_size() const {
    const Index dims = source_ == Source::gate ? 2 : 1;
    return shape_.kv_len * (dims * operands_.padded_dim + operands_.padded_width);
  }

  void add_up(Index head, Index range) {
    Partial& partial = partials_[std::size_t(head * ranges_ + range)];
    partial.sums = Buffer<float>(sums_size());
    std::fill_n(partial.sums.data(), sums_size(), 0.0f);
    partial.parameters = Parameters(operands_.pack, shape_);
    BackwardBlock<Reads, Tape<Ps...>> block(operands_, upstream_);
    const Index blocks = Blocks(shape_).count;
    // Every ranges-th block, so that each range has early and late rows.
    for (Index i = range; i < blocks; i += ranges_) {
      block.run(head / shape_.kv_heads, head % shape_.kv_heads, i, sums(partial), into_.q,
                partial.parameters);
    }
    if (ranges_ == 1) write_keys(head);
  }

  // Adds the ranges in order, undoes the encodings, writes.
  void write_keys(Index head) {
    Partial& first = partials_[std::size_t(head * ranges_)];
    for (Index range = 1; range < ranges_; ++range) {
      Partial& next = partials_[std::size_t(head * ranges_ + range)];
      for (Index i = 0; i < sums_size(); ++i) first.sums[i] += next.sums[i];
      next.sums = Buffer<float>();
    }
    const KeyGradients sum = sums(first);
    const Index b = head / shape_.kv_heads, kv_head = head % shape_.kv_heads;
    write(sum.k, operands_.padded_dim, into_.k, b, kv_head, true);
    write(sum.v, operands_.padded_width, into_.v, b, kv_head, false);
    if (source_ == Source::gate) {
      write(sum.gate, operands_.padded_dim, into_.gate_keys, b, kv_head, true);
    }
    first.sums = Buffer<float>();
  }
  void write(float* from, Index width, const View<float>& to, Index b, Index kv_head,
             bool encoded) const {
    if (to.dim() == 0) return;
    for (Index j = 0; j < operands_.placed(b, kv_head).extents.kv_len; ++j) {
      float* const row = from + j * width;
      if constexpr (Reads::Policies::kEncoded) {
        if (encoded) {
          operands_.pack.encode_adjoint(Vector(row, shape_.dim), j, operands_.key_tables(b));
        }
      }
      std::copy_n(row, to.dim(), to.row(b, kv_head, j));
    }
  }

  const Reads& operands_;
  const Upstream& upstream_;
  const GradientsInto& into_;
  const Shape& shape_;
  const Index ranges_;
  const Source source_;
  std::vector<Partial> partials_;
};

template <class E, class... Ps>
PolicyGradients<Ps...> backward(E&& executor, const GradientsInto& into, View<const float> q,
                                View<const float> k, View<const float> v, const Upstream& upstream,
                                const Pack<Ps...>& pack) {
  static_assert(!(kResume<Ps> || ...),
                "heed: attend_backward takes no Resume; attend the whole range in one call");
  Shape shape = shape_of("attend_backward", q, k, v);
  const std::array<Index, 4> out_shape{shape.batch, shape.heads, shape.q_len, shape.v_dim};
  contract::same_shape(shape.function, "out", upstream.out.extent, out_shape);
  contract::same_shape(shape.function, "dout", upstream.dout.extent, out_shape);
  contract::same_shape(shape.function, "lse",
                       {upstream.lse.extent[0], upstream.lse.extent[1], upstream.lse.extent[2], 1},
                       {shape.batch, shape.heads, shape.q_len, 1});
  const GateStream gates = pack.gate_stream();
  check_gradients_into(into, shape, gates.source == Source::gate);
  pack.check(shape);
  for (const View<float>* view : {&into.q, &into.k, &into.v, &into.gate_keys}) {
    Into one;
    one.out = *view;
    check_apart("attend_backward", one,
                {{"q", Bytes::of(q)}, {"k", Bytes::of(k)}, {"v", Bytes::of(v)},
                 {"out", Bytes::of(upstream.out)}, {"dout", Bytes::of(upstream.dout)},
                 {"lse", Bytes::of(upstream.lse)}, {"the gate keys", Bytes::of(gates.keys)}});
    for (const View<float>* other : {&into.q, &into.k, &into.v, &into.gate_keys}) {
      if (other != view) check_apart("attend_backward", one, {{"a gradient", Bytes::of(*other)}});
    }
    fill_zero(*view);   // rows and keys beyond a batch entry's extents
  }
  if (shape.batch * shape.heads * shape.q_len == 0 || shape.kv_len == 0) {
    return PolicyGradients<Ps...>(pack, shape);
  }
  const Operands<Ps...> operands(executor, shape, q, k, v, pack, true);
  return BackwardPass<Ps...>(operands, upstream, into).run(executor);
}

template <class E, class Q, class K, class V, class... Ps>
auto saving_on(E&& executor, const Q& q, const K& k, const V& v, const Ps&... policies) {
  static_assert(!ViewLike<Q>, "heed: a View owns no memory to return; give attend_saving tensors "
                              "or matrices, or use attend(Into{.out, .lse}, ...)");
  const View<const float> query(q), value(v);
  const Shape shape = shape_of("attend_saving", query, View<const float>(k), value);
  Saved<decltype(make_like(q, 0, 0, 0, 0))> saved{
      make_like(q, shape.batch, shape.heads, shape.q_len, shape.v_dim), {}, {}};
  saved.extent = {shape.batch, shape.heads, shape.q_len};
  saved.lse_data.resize(std::size_t(shape.batch * shape.heads * shape.q_len));
  Into into;
  into.out = view_like(saved.out, q, shape.heads);
  into.lse = saved.lse();
  forward(executor, into, query, View<const float>(k), value, pack(policies...));
  return saved;
}

template <class Q, class K, class V, class... Ps>
auto make_gradients(const Q& q, const K& k, const V& v, const Pack<Ps...>&) {
  const auto like = [](const auto& x) {
    const View<const float> view(x);
    return make_like(x, view.batch(), view.heads(), view.time(), view.dim());
  };
  return Gradients<decltype(like(q)), decltype(like(k)), decltype(like(v)), Ps...>(like(q), like(k),
                                                                                 like(v));
}

template <class E, class Q, class K, class V, class S, class D, class... Ps>
auto backward_new(E&& executor, const Q& q, const K& k, const V& v, const S& saved, const D& dout,
                  const Ps&... policies) {
  const auto& all = pack(policies...);
  auto result = make_gradients(q, k, v, all);
  const View<const float> query(q), key(k), value(v);
  GradientsInto into;
  into.q = view_like(result.q, q, query.heads());
  into.k = view_like(result.k, k, key.heads());
  into.v = view_like(result.v, v, value.heads());
  const GateStream gates = all.gate_stream();
  if (gates.source == Source::gate) {
    result.gate_keys_extent = gates.keys.extent;
    result.gate_keys_data.resize(
        std::size_t(gates.keys.batch() * gates.keys.heads() * gates.keys.time() * gates.keys.dim()));
    into.gate_keys = View<float>(result.gate_keys_data.data(), gates.keys.extent);
  }
  auto& out = const_cast<std::remove_cvref_t<decltype(saved.out)>&>(saved.out);
  const Upstream upstream{view_like(out, q, query.heads()), View<const float>(dout), saved.lse()};
  static_cast<std::remove_cvref_t<decltype(detail::backward(executor, into, query, key, value,
                                                            upstream, all))>&>(result) =
      detail::backward(executor, into, query, key, value, upstream, all);
  return result;
}

template <class E, class First, class... Rest>
auto backward_on(E&& executor, const First& first, const Rest&... rest) {
  if constexpr (std::same_as<First, GradientsInto>) {
    return [&](const auto& q, const auto& k, const auto& v, const auto& out, const RowView& lse,
               const auto& dout, const auto&... policies) {
      return detail::backward(executor, first, View<const float>(q), View<const float>(k),
                              View<const float>(v),
                              Upstream{View<const float>(out), View<const float>(dout), lse},
                              pack(policies...));
    }(rest...);
  } else {
    return backward_new(executor, first, rest...);
  }
}

}  // namespace detail

template <class First, class... Rest>
auto attend_saving(First&& first, const Rest&... rest) {
  if constexpr (detail::is_executor<First>()) {
    return detail::saving_on(first, rest...);
  } else {
    return detail::saving_on(Serial{}, first, rest...);
  }
}

template <class First, class... Rest>
auto attend_backward(First&& first, const Rest&... rest) {
  static_assert(sizeof...(Rest) >= 4,
                "heed: attend_backward takes ([device,] q, k, v, saved, dout, policies...) or "
                "([device,] GradientsInto{...}, q, k, v, out, lse, dout, policies...)");
  if constexpr (detail::is_executor<First>()) {
    return detail::backward_on(first, rest...);
  } else {
    return detail::backward_on(Serial{}, first, rest...);
  }
}

}  // namespace heed::inline HEED_ABI
