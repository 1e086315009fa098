// SPDX-License-Identifier: Apache-2.0
//
// The primitives of every instruction set, once for all test programs.

#include "support/prefix.hpp"

namespace heed::inline HEED_ABI::simd {

template const ForwardTable& table_for<ForwardTable>(Isa);
template const BackwardTable& table_for<BackwardTable>(Isa);
template const DecodeTable& table_for<DecodeTable>(Isa);

}  // namespace heed::inline HEED_ABI::simd
