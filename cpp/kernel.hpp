// What the pair kernels are given. No standard library here: this header is compiled once per
// instruction set, and an inline function compiled for AVX-512 must not be linked into the rest.
#pragma once

#include <cstdint>

namespace minrisk {

constexpr int lanes = 8;  // references that are scored side by side
constexpr int rows = 4;   // hypotheses that share each load of a reference

// Texts as a kernel reads them, `lanes` side by side in a block; the last block is padded with
// texts that have no n-grams and score 0.
struct Side {
    const std::uint64_t* bits;     // (blocks, words, lanes)
    const double* inverse_totals;  // (blocks, orders, lanes); 0 where a text has none
    const double* char_orders;     // (blocks, lanes) how many orders have n-grams
    const double* word_orders;
    std::int64_t blocks;
};

struct Problem {
    Side hyps, refs;
    const std::uint32_t* order_words;  // (orders + 1) where the words of each order start
    int orders;
    double factor;  // beta squared
    bool smoothed;  // F per order, then the mean; otherwise one F of mean precision and recall
};

// `rows` neighbouring hypotheses, from a multiple of `rows` on.
struct Rows {
    std::int64_t first;
    const std::uint16_t* rare;  // (rows, orders, refs.blocks * lanes) matches that are not in bits
    std::int64_t self[rows];    // the reference that is the same text, or -1
    double self_score[rows];
};

// Scores of `rows` hypotheses with every reference from a block on.
using ScoresKernel = void (*)(const Problem&, const Rows&, double* scores, std::int64_t stride);

// Adds mass[r] * score(h, r) to forward[h, lane of r]. Where hypotheses and references are the
// same, every pair is visited once, from the block of the hypotheses on, and mass[h] * score(r, h)
// is added to backward[r].
struct Reduction {
    const double* mass;  // (refs.blocks, lanes)
    double* forward;     // (rows, lanes)
    double* backward;    // (refs.blocks, lanes), or null if each side is a set of its own
};
using UtilityKernel = void (*)(const Problem&, const Rows&, const Reduction&);

struct Kernels {
    const char* name;
    double rare;  // a column in at most this share of the pairs is cheaper to count than to AND
    ScoresKernel scores;
    UtilityKernel utility;
};

extern const Kernels portable_kernels;
#if defined(MINRISK_X86)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

}  // namespace minrisk
