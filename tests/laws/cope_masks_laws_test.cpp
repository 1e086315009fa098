// SPDX-License-Identifier: Apache-2.0
//
// The laws for CoPE under masks and placements: what is hidden does not count.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<WindowSinks, Coped<false, true>>, Described<Documents, Coped<true, true>>,
    Described<Dense<true>, Coped<false, true>>, Described<Causal, Placed, Coped<false, true>>,
    Described<Causal, Padded, Coped<false, false>>,
    Described<Dense<true>, Coped<false, true, oracle::Cope::Gates::keys>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CopeMasks, Laws, Packs, PackName);

}  // namespace support
