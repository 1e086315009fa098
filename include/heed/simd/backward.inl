// SPDX-License-Identifier: Apache-2.0
//
// Included once per instruction set by dispatch.hpp, without include guard: the primitives of the
// backward pass. backward_table.hpp says what each one does. The products are the forward ones:
// dq is a weighted sum of keys, dk and dv are weighted sums over a block's rows.

namespace heed::inline HEED_ABI::simd::HEED_LEVEL {

inline void softmax_adjoint(float* tile, float* adjoint, Index n, const SoftmaxAdjoint& s,
                            const LaneBits* visible, const Reach& reach) {
  const I lane_bit = splat(1) << lane_numbers();
  for (Index j = 0; j < n; ++j) {
    const Index chunk = j / kGroup;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Index lane = v * kLanes, group = lane / kGroup;
      float* const p_at = tile + j * kRows + lane;
      float* const d_at = adjoint + j * kRows + lane;
      if (group < reach.first[chunk] || group >= reach.last[chunk]) {
        store(p_at, F{});
        store(d_at, F{});
        continue;
      }
      F p = exp2((load(p_at) - load(s.shifted_lse + lane)) * kLog2e);
      F d = p * (load(d_at) - load(s.delta + lane));
      if (visible != nullptr) {
        const I seen = (splat(std::int32_t(visible[j] >> lane & 0xffff)) & lane_bit) != 0;
        p = seen ? p : F{};
        d = seen ? d : F{};
      }
      store(p_at, p);
      store(d_at, d);
    }
  }
}

// out[j] += sum over lanes of tile[j][lane] * rows[lane]: four or six keys at a time.
template <int keys, int vectors>
HEED_INLINE void row_sum_step(float* out, Index width, const float* tile, const float* const* rows,
                              Index column, Index begin, Index end) {
  F sum[keys][vectors];
#pragma GCC unroll 16
  for (int j = 0; j < keys; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[j][v] = load(out + j * width + v * kLanes);
  }
  for (Index lane = begin; lane < end; ++lane) {
    F x[vectors];
    const float* const row = rows[lane] + column;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) x[v] = load(row + v * kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < keys; ++j) {
      const F weight = splat(tile[j * kRows + lane]);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sum[j][v] = fma(weight, x[v], sum[j][v]);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < keys; ++j) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store(out + j * width + v * kLanes, sum[j][v]);
  }
}

template <int keys, int vectors>
HEED_INLINE void row_sum_keys(float* out, Index width, const float* tile, const float* const* rows,
                              Index column, Index lane, Index end_lane, Index begin, Index end) {
  Index j = begin;
  for (; j + keys <= end; j += keys) {
    row_sum_step<keys, vectors>(out + j * width + column, width, tile + j * kRows, rows, column,
                                lane, end_lane);
  }
  if constexpr (keys > 4) {
    for (; j + 4 <= end; j += 4) {
      row_sum_step<4, vectors>(out + j * width + column, width, tile + j * kRows, rows, column,
                               lane, end_lane);
    }
  }
  for (; j < end; ++j) {
    row_sum_step<1, vectors>(out + j * width + column, width, tile + j * kRows, rows, column, lane,
                             end_lane);
  }
}

inline void row_sum(float* out, Index width, const float* tile, const float* const* rows, Index n,
                    Index lanes, const Reach& reach) {
  for (Index chunk = 0; chunk * kGroup < n;) {
    Index next = chunk + 1;
    while (next * kGroup < n && reach.first[next] == reach.first[chunk] &&
           reach.last[next] == reach.last[chunk]) {
      ++next;
    }
    const Index begin = chunk * kGroup, end = next * kGroup < n ? next * kGroup : n;
    const Index lane = reach.first[chunk] * kGroup;
    const Index reached = reach.last[chunk] * kGroup;
    const Index end_lane = reached < lanes ? reached : lanes;
    chunk = next;
    if (end_lane <= lane) continue;
    Index column = 0;
#if HEED_LANES == 16
    for (; column + 64 <= width; column += 64) {
      row_sum_keys<4, 4>(out, width, tile, rows, column, lane, end_lane, begin, end);
    }
    if (column + 48 <= width) {
      row_sum_keys<4, 3>(out, width, tile, rows, column, lane, end_lane, begin, end);
      column += 48;
    }
    if (column + 32 <= width) {
      row_sum_keys<8, 2>(out, width, tile, rows, column, lane, end_lane, begin, end);
      column += 32;
    }
    if (column + 16 <= width) {
      row_sum_keys<16, 1>(out, width, tile, rows, column, lane, end_lane, begin, end);
    }
#else
    for (; column + 2 * kLanes <= width; column += 2 * kLanes) {
      row_sum_keys<6, 2>(out, width, tile, rows, column, lane, end_lane, begin, end);
    }
#endif
  }
}

inline void erase(float* tile, const LaneBits* visible, Index n) {
  const I lane_bit = splat(1) << lane_numbers();
  for (Index j = 0; j < n; ++j) {
    for (Index lane = 0; lane < kRows; lane += kLanes) {
      float* const at = tile + j * kRows + lane;
      const I word = splat(std::int32_t(visible[j] >> lane & 0xffff));
      store(at, (word & lane_bit) != 0 ? load(at) : F{});
    }
  }
}

inline void column_sum(float* sum, const float* tile, Index n) {
  for (Index j = 0; j < n; ++j) {
    for (Index lane = 0; lane < kRows; lane += kLanes) {
      store(sum + lane, load(sum + lane) + load(tile + j * kRows + lane));
    }
  }
}

inline void scale_adjoint(float* adjoint, const float* tile, Index n, const float* factor,
                          float* d_factor) {
  for (Index j = 0; j < n; ++j) {
    for (Index lane = 0; lane < kRows; lane += kLanes) {
      const F d = load(adjoint + j * kRows + lane);
      const F x = load(tile + j * kRows + lane);
      // A hidden logit is -inf and its adjoint 0.
      const F term = d == 0.0f ? F{} : d * x;
      store(d_factor + lane, load(d_factor + lane) + term);
      store(adjoint + j * kRows + lane, d * load(factor + lane));
    }
  }
}

inline void slope_adjoint(float* d_slope, const float* adjoint, Index n, const float* lane_position,
                          const float* key_position) {
  for (Index j = 0; j < n; ++j) {
    for (Index lane = 0; lane < kRows; lane += kLanes) {
      const F distance = load(lane_position + lane) - splat(key_position[j]);
      const F magnitude = from_bits(bits(distance) & 0x7fffffff);
      const F d = load(adjoint + j * kRows + lane);
      store(d_slope + lane, fma(-d, magnitude, load(d_slope + lane)));
    }
  }
}

// Lanes own their columns, so no two of them meet.
inline void band_adjoint(float* d_band, const float* adjoint, Index n, Index rows,
                         const std::int32_t* start, const std::int32_t* key_offset) {
  const I last = splat(std::int32_t(rows - 1));
  for (Index j = 0; j < n; ++j) {
    for (Index lane = 0; lane < kRows; lane += kLanes) {
      I row = load(start + lane) - splat(key_offset[j]);
      row = row < 0 ? I{} : row;
      row = row > last ? last : row;
      alignas(64) std::int32_t place[kLanes];
      *reinterpret_cast<IU*>(place) =
          row * std::int32_t(kRows) + lane_numbers() + std::int32_t(lane);
      for (Index i = 0; i < kLanes; ++i) d_band[place[i]] += adjoint[j * kRows + lane + i];
    }
  }
}

inline void soft_cap_adjoint(float* adjoint, const float* tile, Index n, float cap) {
  const F inverse = splat(1.0f / cap);
  for (Index i = 0; i < n * kRows; i += kLanes) {
    const F t = tanh(load(tile + i) * inverse);
    store(adjoint + i, load(adjoint + i) * fma(-t, t, splat(1.0f)));
  }
}

// Adds each lane's share to row `row` of its column of dz, where mask holds.
HEED_INLINE void flush_row(float* dz, I mask, F row, F share, Index lane) {
  const I at = to_int(row) * std::int32_t(kRows) + lane_numbers() + std::int32_t(lane);
  alignas(64) std::int32_t place[kLanes];
  alignas(64) float amount[kLanes];
  *reinterpret_cast<IU*>(place) = at;
  store(amount, share);
  for (std::uint32_t left = mask_bits(mask); left != 0; left &= left - 1) {
    const int i = __builtin_ctz(left);
    dz[place[i]] += amount[i];
  }
}

// A lane's cell of the table with what its three rows have collected. A row's sum goes to dz once,
// when the lane has left it, so it does not matter how often the cell was moved.
struct Collected {
  Cell cell;
  F at_row, at_next, at_far;   // of rows cell.row, + 1, + 2
};

HEED_INLINE void move_to(Collected& c, float* dz, const float* z, F row, Index lane) {
  const I moved = row != c.cell.row;
  if (!any(moved)) return;
  flush_row(dz, moved, c.cell.row, c.at_row, lane);
  const I far = row > c.cell.row + 1.0f;
  if (any(far)) {
    flush_row(dz + kRows, far, c.cell.row, c.at_next, lane);
    const I farther = row > c.cell.row + 2.0f;   // a position that is not a number: the last row
    if (any(farther)) flush_row(dz + 2 * kRows, farther, c.cell.row, c.at_far, lane);
    c.at_row = moved ? (farther ? F{} : far ? c.at_far : c.at_next) : c.at_row;
    c.at_next = moved ? (far ? F{} : c.at_far) : c.at_next;
  } else {
    c.at_row = moved ? c.at_next : c.at_row;
    c.at_next = moved ? c.at_far : c.at_next;
  }
  c.at_far = moved ? F{} : c.at_far;
  move_to(c.cell, z, row, lane);
}

// Two sweeps over a tile. Newest to oldest, as forward and as it in chunks: the position of each
// key, its share of dz and dp = d bias / d position. Oldest to newest: `running` sums dp over all
// keys at least as old, which is what a gate feels, since it counts towards all of them.
HEED_INLINE void gate_walk_adjoint_lanes(float* adjoint, float* gate_adjoint, const float* gates,
                                         Index n, const GateWalk& walk, const GateAdjoint& out,
                                         const Reach& reach, Index lane) {
  constexpr Index kChunk = 8;
  const F carry = load(walk.carry + lane), low = load(walk.low + lane);
  const F last = splat(walk.last);
  const I open = ~(carry >= last);
  const I every = splat(-1);
  const Index group = lane / kGroup;
  if (!any(open)) {   // every key of the tile stands at the last row
    float* const last_row = out.dz + std::int32_t(walk.last) * kRows + lane;
    F sum = load(last_row);
    for (Index j = 0; j < n; ++j) sum += load(adjoint + j * kRows + lane);
    store(last_row, sum);
    return;
  }
  const F own = walk.own_token ? splat(1.0f) : F{};
  alignas(64) float gate[kKeys * kLanes];
  alignas(64) float slope[kKeys * kLanes];   // dp
  const F start = floor(min(carry + low, last));
  Collected c{{start, z_at(F{}, every, walk.z, start, lane),
               z_at(F{}, every, walk.z + kRows, start, lane),
               z_at(F{}, every, walk.z + 2 * kRows, start, lane)}, F{}, F{}, F{}};
  F total{};
  for (Index end = n, begin; end > 0; end = begin) {
    begin = (end - 1) / kChunk * kChunk;
    const Index chunk = begin / kGroup, count = end - begin;
    if (group < reach.first[chunk] || group >= reach.last[chunk]) {
      std::memset(gate + begin * kLanes, 0, sizeof(float) * std::size_t(count * kLanes));
      std::memset(slope + begin * kLanes, 0, sizeof(float) * std::size_t(count * kLanes));
      continue;
    }
    F position[kChunk];
#pragma GCC unroll 8
    for (Index i = 0; i < kChunk; ++i) {
      position[i] = i < count ? sigmoid(load(gates + (end - 1 - i) * kRows + lane)) : F{};
      if (i < count) store(gate + (end - 1 - i) * kLanes, position[i]);
    }
#pragma GCC unroll 8
    for (Index i = 0; i < kChunk; ++i) {
      const F g = position[i], sum = carry + (low + fma(own, g, total));
      position[i] = sum > last ? last : sum;   // NaN stays NaN
      total += g;
    }
    move_to(c, out.dz, walk.z, floor(min(position[0], last)), lane);
    // At an integer, the clamp included, the slope is 0 by convention.
    if (!any(~(position[kChunk - 1] < c.cell.row + 2.0f))) {   // within two rows, as forward
      const F rise = c.cell.z1 - c.cell.z0, next_rise = c.cell.z2 - c.cell.z1;
#pragma GCC unroll 8
      for (Index i = 0; i < kChunk; ++i) {
        if (i >= count) break;
        const Index j = end - 1 - i;
        const F d = load(adjoint + j * kRows + lane);
        const F t = position[i] - c.cell.row;
        const I first = t < 1.0f;
        const F w = first ? t : t - 1.0f;
        const F upper = fma(w, d, first ? c.at_next : c.at_far);
        const F lower = fma(-w, d, (first ? c.at_row : c.at_next) + d);
        c.at_far = first ? c.at_far : upper;
        c.at_next = first ? upper : lower;
        c.at_row = first ? lower : c.at_row;
        const I inside = (w != 0.0f) & open;
        store(slope + j * kLanes, inside ? d * (first ? rise : next_rise) : F{});
      }
      continue;
    }
    for (Index i = 0; i < count; ++i) {
      const Index j = end - 1 - i;
      const F row = floor(min(position[i], last));
      move_to(c, out.dz, walk.z, row, lane);
      const F w = position[i] - row;
      const F d = load(adjoint + j * kRows + lane);
      c.at_next = fma(w, d, c.at_next);
      c.at_row = fma(-w, d, c.at_row + d);
      const I inside = (w != 0.0f) & open;
      store(slope + j * kLanes, inside ? d * (c.cell.z1 - c.cell.z0) : F{});
    }
  }
  flush_row(out.dz, every, c.cell.row, c.at_row, lane);
  flush_row(out.dz + kRows, every, c.cell.row, c.at_next, lane);
  flush_row(out.dz + 2 * kRows, every, c.cell.row, c.at_far, lane);
  F running = load(out.running + lane);
  for (Index j = 0; j < n; ++j) {
    const F dp = load(slope + j * kLanes);
    const F felt = walk.own_token ? running + dp : running;
    running += dp;
    const F g = load(gate + j * kLanes);
    float* const to = gate_adjoint + j * kRows + lane;
    // A closed gate (0: hidden, or far below) and an open one (1) have no derivative to pass on.
    const F slope_of_gate = g * (1.0f - g);
    store(to, fma(felt, slope_of_gate, load(to)));
  }
  store(out.running + lane, running);
}

inline void gate_walk_adjoint(float* adjoint, float* gate_adjoint, const float* gates, Index n,
                              const GateWalk& walk, const GateAdjoint& out, const Reach& reach) {
  for (Index lane = 0; lane < kRows; lane += kLanes) {
    gate_walk_adjoint_lanes(adjoint, gate_adjoint, gates, n, walk, out, reach, lane);
  }
}

template <class Table>
inline constexpr Table kBackward = {
    softmax_adjoint, row_sum,      erase,            column_sum,        scale_adjoint,
    slope_adjoint,   band_adjoint, soft_cap_adjoint, gate_walk_adjoint,
};

}  // namespace heed::inline HEED_ABI::simd::HEED_LEVEL
