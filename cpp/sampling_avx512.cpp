// Kernels of sampling for AVX-512.
#include "sampling.hpp"

namespace minrisk::avx512 {

constexpr int register_bytes = 64;

#include "sampling_body.hpp"

}  // namespace minrisk::avx512

namespace minrisk {
const Sampling avx512_sampling = avx512::all_kernels();
}
