// SPDX-License-Identifier: Apache-2.0
//
// The laws for CoPE alone: both forms, both conventions, all sources of gates.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<Causal, Coped<false, true>>, Described<Causal, Coped<true, true>>,
    Described<Causal, Coped<false, false>>, Described<Causal, Coped<true, false>>,
    Described<Causal, Coped<false, true, oracle::Cope::Gates::keys>>,
    Described<Causal, Coped<false, true, oracle::Cope::Gates::values>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Copes, Laws, Packs, PackName);

}  // namespace support
