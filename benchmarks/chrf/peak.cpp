// The machine's limit: how many 64-bit words it can AND, count the bits of and add up per second
// when all of them lie in the first-level cache. Prints {"name": {"threads": words per second}}.
//
// usage: peak THREADS...
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr int lanes = 8, words = 256;  // 16 KiB of references
constexpr double least_seconds = 0.05;
constexpr int attempts = 7;

using Pass = std::uint64_t (*)(const std::uint64_t* refs, const std::uint64_t* hyps);
using Words = std::uint64_t __attribute__((vector_size(lanes * 8)));

struct Method {
    Pass pass;
    int rows;  // hypotheses that share each load of a reference
};

template <int rows>
__attribute__((noipa)) std::uint64_t portable(const std::uint64_t* refs,
                                              const std::uint64_t* hyps) {
    Words sums[rows] = {};
    for (int w = 0; w < words; ++w) {
        for (int i = 0; i < rows; ++i) {
            Words x;
            __builtin_memcpy(&x, refs + w * lanes, sizeof x);
            x &= hyps[i];
            x -= (x >> 1) & 0x5555555555555555;
            x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333);
            x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
            x += x >> 8;
            x += x >> 16;
            x += x >> 32;
            sums[i] += x & 0x7f;
        }
    }
    std::uint64_t total = 0;
    for (const Words& sum : sums)
        for (int lane = 0; lane < lanes; ++lane) total += sum[lane];
    return total;
}

#if defined(__x86_64__)

// Nibbles are looked up, and bytes added for as long as they cannot overflow.
template <int rows>
__attribute__((noipa, target("avx2"))) std::uint64_t avx2(const std::uint64_t* refs,
                                                          const std::uint64_t* hyps) {
    constexpr int chunk = 16;  // at most 31: a word adds up to 8 to a byte
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(0x0f);
    __m256i sums[rows] = {};
    for (int w = 0; w < 2 * words; w += chunk) {
        __m256i bytes[rows] = {};
        for (int c = 0; c < chunk; ++c) {
            const __m256i ref =
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(refs) + w + c);
            for (int i = 0; i < rows; ++i) {
                const __m256i x = _mm256_and_si256(ref, _mm256_set1_epi64x(hyps[i]));
                const __m256i lower = _mm256_shuffle_epi8(table, _mm256_and_si256(x, low));
                const __m256i upper = _mm256_shuffle_epi8(
                    table, _mm256_and_si256(_mm256_srli_epi16(x, 4), low));
                bytes[i] = _mm256_add_epi8(bytes[i], _mm256_add_epi8(lower, upper));
            }
        }
        for (int i = 0; i < rows; ++i)
            sums[i] = _mm256_add_epi64(sums[i],
                                       _mm256_sad_epu8(bytes[i], _mm256_setzero_si256()));
    }
    std::uint64_t total = 0, parts[4];
    for (const __m256i& sum : sums) {
        __builtin_memcpy(parts, &sum, sizeof parts);
        total += parts[0] + parts[1] + parts[2] + parts[3];
    }
    return total;
}

template <int rows>
__attribute__((noipa, target("avx512f,avx512vpopcntdq"))) std::uint64_t avx512(
    const std::uint64_t* refs, const std::uint64_t* hyps) {
    __m512i sums[rows] = {};
    for (int w = 0; w < words; ++w) {
        const __m512i ref = _mm512_loadu_si512(refs + w * lanes);
        for (int i = 0; i < rows; ++i) {
            const __m512i common = _mm512_and_si512(ref, _mm512_set1_epi64(hyps[i]));
            sums[i] = _mm512_add_epi64(sums[i], _mm512_popcnt_epi64(common));
        }
    }
    std::uint64_t total = 0;
    for (const __m512i& sum : sums) total += _mm512_reduce_add_epi64(sum);
    return total;
}

#endif

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Words per second of one thread, from the moment that `go` is set.
double rate(const Method& method, const std::atomic<bool>& go) {
    std::vector<std::uint64_t> refs(words * lanes), hyps(method.rows);
    std::uint64_t state = 1;
    for (auto& word : refs) word = state = state * 6364136223846793005u + 1442695040888963407u;
    for (auto& word : hyps) word = state = state * 6364136223846793005u + 1442695040888963407u;
    volatile std::uint64_t sink = method.pass(refs.data(), hyps.data());
    while (!go) std::this_thread::yield();
    const double start = now();
    double passes = 0, spent = 0;
    for (; spent < least_seconds; spent = now() - start)
        for (int i = 0; i < 256; ++i, ++passes) sink = sink + method.pass(refs.data(), hyps.data());
    return passes * words * lanes * method.rows / spent;
}

double rate_of_all(const Method& method, int threads) {
    std::atomic<bool> go{false};
    std::vector<double> rates(threads);
    {
        std::vector<std::jthread> team;
        for (int t = 0; t < threads; ++t)
            team.emplace_back([&, t] { rates[t] = rate(method, go); });
        go = true;
    }
    double total = 0;
    for (double each : rates) total += each;
    return total;
}

double best_rate(const std::vector<Method>& methods, int threads) {
    double best = 0;
    for (int attempt = 0; attempt < attempts; ++attempt)
        for (const Method& method : methods) best = std::max(best, rate_of_all(method, threads));
    return best;
}

struct Named {
    const char* name;
    std::vector<Method> methods;
};

std::vector<Named> available() {
    std::vector<Named> found{{"portable", {{portable<1>, 1}, {portable<2>, 2}, {portable<4>, 4}}}};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        found.push_back({"avx2", {{avx2<1>, 1}, {avx2<2>, 2}, {avx2<4>, 4}}});
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vpopcntdq"))
        found.push_back({"avx512", {{avx512<1>, 1}, {avx512<2>, 2}, {avx512<4>, 4}}});
#endif
    return found;
}

}  // namespace

int main(int count, char** arguments) {
    std::string json;
    for (const Named& named : available()) {
        json += (json.empty() ? "{\"" : "}, \"") + std::string(named.name) + "\": {";
        for (int i = 1; i < count; ++i)
            json += (i > 1 ? ", \"" : "\"") + std::string(arguments[i]) + "\": " +
                    std::to_string(best_rate(named.methods, std::atoi(arguments[i])));
    }
    std::printf("%s}}\n", json.c_str());
}
