// SPDX-License-Identifier: Apache-2.0
//
// heed: exact attention on CPUs from composable policies. The map of the library:
//
//   attend, Into, merge      kernel/attend.hpp, kernel/into.hpp, kernel/merge.hpp
//   attend_saving, attend_backward   kernel/attend_backward.hpp
//   how it is computed       kernel/walk.hpp -> kernel/forward.hpp -> simd/primitives.inl
//   what a policy is         policy/concepts.hpp; how they combine: policy/pack.hpp
//   decoding with a cache    cache/cache.hpp, cache/decode.hpp; evictions: cache/eviction.hpp
//   tensors it takes         core/view.hpp (tensors, bthd, split_heads)
//   threads                  core/parallel.hpp
// Beside it: testing.hpp checks the gradients of one's own policies, fit.hpp fits head scales.
//
// Includes Eigen/Core only; Eigen's Tensor and ThreadPoolDevice are recognised by their shape.

#pragma once

#include "kernel/attend.hpp"
#include "kernel/attend_backward.hpp"
#include "kernel/merge.hpp"

// Masks: who may meet whom.
#include "policy/dense.hpp"       // DenseMask, and Bias
#include "policy/documents.hpp"   // SameDocument
#include "policy/masks.hpp"       // causal, Window, Sinks, where, & | !

// Where queries and keys stand.
#include "policy/placement.hpp"   // Positions, top_left, Lengths

// Encodings and scores: where things are.
#include "policy/absolute.hpp"    // add_positions, sinusoidal
#include "policy/alibi.hpp"       // Alibi
#include "policy/cope.hpp"        // Cope, contextual position encoding
#include "policy/relative.hpp"    // Relative
#include "policy/rope.hpp"        // Rope
#include "policy/t5.hpp"          // T5Bias

// Scores: how sharply.
#include "policy/pointwise.hpp"   // pointwise(f, df)
#include "policy/scale.hpp"       // Scale, HeadScale, LogScale
#include "policy/sink_logits.hpp" // SinkLogits
#include "policy/soft_cap.hpp"    // SoftCap

// Caches: decoding with bounded memory.
#include "cache/decode.hpp"         // decode, Cache (cache/cache.hpp, cache/options.hpp)
#include "cache/heavy_hitters.hpp"  // HeavyHitters, H2O
#include "cache/oldest.hpp"         // Oldest: a window, with or without sinks
#include "cache/prefill.hpp"        // prefill, one_shot and stepwise
#include "cache/save.hpp"           // Cache::save, Cache::restore
#include "cache/tova.hpp"           // Tova
