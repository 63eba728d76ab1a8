// Pair kernels for AVX-512 with VPOPCNTDQ: one instruction counts the bits of eight words.
#include <immintrin.h>

#include "kernel.hpp"

namespace minrisk::avx512 {

constexpr int register_bytes = 64;

struct Counter {
    __m512i sum;

    void start(const std::uint16_t* counts) {
        const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(counts));
        sum = _mm512_maskz_cvtepu16_epi64(0xff, all);
    }

    void add(const std::uint64_t* refs, std::uint64_t hyp) {
        const __m512i common = _mm512_and_si512(_mm512_loadu_si512(refs), _mm512_set1_epi64(hyp));
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(common));
    }

    void store(std::uint64_t* to) const { _mm512_storeu_si512(to, sum); }

    auto result() const {
        using Result = double __attribute__((vector_size(lanes * 8)));
        return reinterpret_cast<Result>(_mm512_cvtepu64_pd(sum));
    }
};

#include "kernel_body.hpp"

}  // namespace minrisk::avx512

namespace minrisk {
const Kernels avx512_kernels = avx512::kernels_of("avx512", 0.001);
}
