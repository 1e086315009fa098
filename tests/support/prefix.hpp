// SPDX-License-Identifier: Apache-2.0
//
// What nearly every test program reads first, compiled once per tree. The primitives are compiled
// once too, in prefix.cpp and at -O2, so that the programs around them can be built quickly.

#pragma once

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <functional>
#include <random>
#include <unsupported/Eigen/CXX11/Tensor>
#include <vector>

#include <heed/simd/dispatch.hpp>

namespace heed::inline HEED_ABI::simd {

extern template const ForwardTable& table_for<ForwardTable>(Isa);
extern template const BackwardTable& table_for<BackwardTable>(Isa);
extern template const DecodeTable& table_for<DecodeTable>(Isa);

}  // namespace heed::inline HEED_ABI::simd
