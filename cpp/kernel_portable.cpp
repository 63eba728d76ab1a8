// Pair kernels for any machine that GCC or Clang compile for.
#include "kernel.hpp"

namespace minrisk::portable {

constexpr int register_bytes = 16;  // as SSE2 and NEON have them

struct Counter {
    using Words = std::uint64_t __attribute__((vector_size(lanes * 8)));
    Words sum;

    void start(const std::uint16_t* counts) {
        for (int lane = 0; lane < lanes; ++lane) sum[lane] = counts[lane];
    }

    void add(const std::uint64_t* refs, std::uint64_t hyp) {
        Words x;
        __builtin_memcpy(&x, refs, sizeof x);
        x &= hyp;
        x -= (x >> 1) & 0x5555555555555555;
        x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
        x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
        x += x >> 8;
        x += x >> 16;
        x += x >> 32;
        sum += x & 0x7f;
    }

    void store(std::uint64_t* to) const { __builtin_memcpy(to, &sum, sizeof sum); }

    auto result() const {
        using Result = double __attribute__((vector_size(lanes * 8)));
        return __builtin_convertvector(sum, Result);
    }
};

#include "kernel_body.hpp"

}  // namespace minrisk::portable

namespace minrisk {
const Kernels portable_kernels = portable::kernels_of("portable", 0.005);
}
