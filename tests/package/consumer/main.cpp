// Calls heed as its README does and through both units, and compares the three results, and the
// version that the package told with the one in the header.
#include <heed/heed.hpp>

// Eigen out of a wheel comes without its Tensor header; then a matrix does.
#if __has_include(<unsupported/Eigen/CXX11/Tensor>)
#include <unsupported/Eigen/CXX11/Tensor>
#define HAS_TENSOR
#endif

#include <cmath>
#include <cstdio>
#include <string>

#include "unit.hpp"

static std::vector<float> waves(float frequency) {
  std::vector<float> values(std::size_t(kHeads * kTime * kDim));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(frequency * float(i));
  return values;
}

// Attention on Eigen's own types: [heads, time, dim] in and out.
static std::vector<float> readme(const Input& in) {
#ifdef HAS_TENSOR
  using Tensor = Eigen::Tensor<float, 4, Eigen::RowMajor>;
  auto make = [](const std::vector<float>& values) {
    return Tensor(Eigen::TensorMap<const Tensor>(values.data(), 1, kHeads, kTime, kDim));
  };
  const Tensor q = make(in.q), k = make(in.k), v = make(in.v);
  const Tensor out = heed::attend(q, k, v, heed::causal);
  return {out.data(), out.data() + out.size()};
#else
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Head = Eigen::Map<const Matrix>;
  auto make = [](const std::vector<float>& values) {
    Matrix m(kTime, kHeads * kDim);
    for (int h = 0; h < kHeads; ++h)
      m.middleCols(h * kDim, kDim) = Head(values.data() + h * kTime * kDim, kTime, kDim);
    return m;
  };
  const Matrix q = make(in.q), k = make(in.k), v = make(in.v);
  const Matrix out = heed::attend(heed::split_heads(q, kHeads), heed::split_heads(k, kHeads),
                                  heed::split_heads(v, kHeads), heed::causal);
  std::vector<float> result;
  for (int h = 0; h < kHeads; ++h)
    for (int t = 0; t < kTime; ++t)
      for (int d = 0; d < kDim; ++d) result.push_back(out(t, h * kDim + d));
  return result;
#endif
}

// Bits are equal inside the kernels alone: around them a compiler with FMA may fuse.
static bool close(const char* name, const std::vector<float>& a, const std::vector<float>& b) {
  bool same = !a.empty() && a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = std::abs(a[i] - b[i]) <= 1e-5f;
  if (!same) std::printf("the plain unit and %s do not agree\n", name);
  return same;
}

int main() {
  const std::string version = std::to_string(HEED_VERSION_MAJOR) + '.' +
                              std::to_string(HEED_VERSION_MINOR) + '.' +
                              std::to_string(HEED_VERSION_PATCH);
  if (version != HEED_VERSION_FOUND) {
    std::printf("the package says %s, the header %s\n", HEED_VERSION_FOUND, version.c_str());
    return 1;
  }
#ifdef EIGEN_PATCH_VERSION
  std::printf("heed %s, Eigen %d.%d\n", version.c_str(), EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
#else  // before 5 the first number was called the world
  std::printf("heed %s, Eigen %d.%d.%d\n", version.c_str(), EIGEN_WORLD_VERSION,
              EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
#endif

  const Input in{waves(0.37f), waves(0.91f), waves(0.13f)};
  const std::vector<float> a = plain(in), b = vector(in);
  for (std::size_t i = 0; i < a.size(); i += 97) std::printf("%a %a\n", double(a[i]), double(b[i]));
  return close("the vector unit", a, b) && close("the README's form", a, readme(in)) ? 0 : 1;
}
