// The two functions that unit.cpp becomes, and what they work on.
#pragma once

#include <array>
#include <vector>

inline constexpr int kHeads = 2, kTime = 150, kDim = 24;

struct Input {
  std::vector<float> q, k, v;  // [heads, time, dim]
};

std::vector<float> plain(const Input& in);
std::vector<float> vector(const Input& in);
