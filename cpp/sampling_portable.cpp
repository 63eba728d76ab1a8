// Kernels of sampling for any machine that GCC or Clang compile for.
#include "sampling.hpp"

namespace minrisk::portable {

constexpr int register_bytes = 16;

#include "sampling_body.hpp"

}  // namespace minrisk::portable

namespace minrisk {
const Sampling portable_sampling = portable::all_kernels();
}
