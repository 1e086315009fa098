// SPDX-License-Identifier: Apache-2.0
//
// The laws for placements: where queries and keys stand.

#include "support/laws.hpp"

namespace support {

using Packs = ::testing::Types<
    Described<TopLeft>, Described<Causal, TopLeft>, Described<Causal, Placed>,
    Described<Padded>, Described<Causal, Padded>, Described<NarrowWindow, Placed>,
    Described<WindowSinks, Padded>, Described<NotWhere, Placed>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Placements, Laws, Packs, PackName);

}  // namespace support
