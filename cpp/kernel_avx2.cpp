// Pair kernels for AVX2: bits are counted by looking up nibbles.
#include <immintrin.h>

#include <array>

#include "kernel.hpp"

namespace minrisk::avx2 {

constexpr int register_bytes = 32;

inline __m256i count_bits(__m256i words) {  // per 64-bit lane
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(0x0f);
    const __m256i lower = _mm256_shuffle_epi8(table, _mm256_and_si256(words, low));
    const __m256i upper =
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(words, 4), low));
    return _mm256_sad_epu8(_mm256_add_epi8(lower, upper), _mm256_setzero_si256());
}

struct Counter {
    __m256i low, high;

    void start(const std::uint16_t* counts) {
        const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(counts));
        low = _mm256_cvtepu16_epi64(all);
        high = _mm256_cvtepu16_epi64(_mm_srli_si128(all, 8));
    }

    void add(const std::uint64_t* refs, std::uint64_t hyp) {
        const __m256i one = _mm256_set1_epi64x(hyp);
        const auto* words = reinterpret_cast<const __m256i*>(refs);
        low = _mm256_add_epi64(
            low, count_bits(_mm256_and_si256(_mm256_loadu_si256(words), one)));
        high = _mm256_add_epi64(
            high, count_bits(_mm256_and_si256(_mm256_loadu_si256(words + 1), one)));
    }

    void store(std::uint64_t* to) const {
        const __m256i halves[2] = {low, high};
        __builtin_memcpy(to, halves, sizeof halves);
    }

    auto result() const {
        // a count below 2^52, put into the mantissa of 2^52, is that double plus 2^52
        const __m256i exponent = _mm256_set1_epi64x(0x4330000000000000);
        const __m256d offset = _mm256_set1_pd(0x1p52);
        const auto converted = [&](__m256i counts) {
            return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(counts, exponent)), offset);
        };
        return std::array{converted(low), converted(high)};
    }
};

#include "kernel_body.hpp"

}  // namespace minrisk::avx2

namespace minrisk {
const Kernels avx2_kernels = avx2::kernels_of("avx2", 0.003);
}
