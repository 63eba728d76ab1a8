// Kernels of sampling for AVX2.
#include "sampling.hpp"

namespace minrisk::avx2 {

constexpr int register_bytes = 32;

#include "sampling_body.hpp"

}  // namespace minrisk::avx2

namespace minrisk {
const Sampling avx2_sampling = avx2::all_kernels();
}
