// Attention over memory of our own. UNIT names the function, so that one program can hold this file
// twice, compiled with different flags. Such files may not both own Eigen objects: Eigen's
// allocator follows the flags, and the linker keeps one of the two.
#include <heed/heed.hpp>

#include "unit.hpp"

std::vector<float> UNIT(const Input& in) {
  const std::array<heed::Index, 4> extent{1, kHeads, kTime, kDim};
  const heed::View<const float> q(in.q.data(), extent), k(in.k.data(), extent),
      v(in.v.data(), extent);
  std::vector<float> out(in.q.size());
  heed::attend(heed::Into{.out = heed::View<float>(out.data(), extent)}, q, k, v, heed::causal);
  return out;
}
