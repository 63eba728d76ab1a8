// Input of the pair kernels. No standard library here: this header is compiled once per instruction
// set, and an inline function compiled for AVX-512 must not be linked into the rest.
#pragma once

#include <cstdint>

namespace minrisk {

constexpr int lanes = 8;  // references that are scored side by side
constexpr int rows = 4;   // hypotheses that share each load of a reference

// Texts as bits, `lanes` side by side in a block; the last block is padded with texts that have no
// n-grams and score 0.
struct Side {
    const std::uint64_t* bits;  // (blocks, words, lanes)
    std::int64_t blocks;
};

// The texts to compare. Each metric adds its own values of the texts.
struct Problem {
    Side hyps, refs;
    const std::uint32_t* order_words;  // (orders + 1) where the words of each order start
    int orders;
};

struct ChrfSide {
    const double* inverse_totals;  // (blocks, orders, lanes); 0 where a text has none
    const double* char_orders;     // (blocks, lanes) how many orders have n-grams
    const double* word_orders;
};

struct ChrfProblem : Problem {
    ChrfSide hyp_side, ref_side;
    double factor;  // beta squared
    bool smoothed;  // F per order, then the mean; otherwise one F of mean precision and recall
};

// The score of a hypothesis is 100 times the brevity penalty times the geometric mean of its
// precisions: the exponential of a sum. What depends on one text alone is summed up beforehand.
struct BleuBlock {
    double length[lanes];
    double inverse_length[lanes];  // 0 if empty
    double inverse_orders[lanes];  // of the precisions that the mean is over
    double missing[lanes];         // orders that the mean is not over
    double constant[lanes];        // log 100, less the mean logarithm of its numbers of n-grams
};

struct BleuProblem : Problem {
    const BleuBlock *hyp_side, *ref_side;
    const double* first_logs;  // of the matches of order 1
    const double* logs;        // of those of the other orders; 0 for no match
    double unmatched, unmatched_squared;  // times the orders without a match, and their square
};

// `rows` neighbouring hypotheses, from a multiple of `rows` on.
struct Rows {
    std::int64_t first;
    const std::uint16_t* list_matches;  // (rows, orders, refs.blocks * lanes) those not in bits
    std::int64_t self[rows];            // the reference that is the same text, or -1
    double self_score[rows];
};

// Sums of mass[r] * score(h, r): in forward[h, lane of r]. Where hypotheses and references are the
// same texts, each pair is visited once, from the block of the hypotheses on, and mass[h] *
// score(r, h) is added to backward[r].
struct Reduction {
    const double* mass;  // (refs.blocks, lanes)
    double* forward;     // (rows, lanes)
    double* backward;    // (refs.blocks, lanes), or null if the two sides differ
};

template <class Problem>
struct PairKernels {
    // `rows` hypotheses with every reference
    void (*scores)(const Problem&, const Rows&, double* scores, std::int64_t stride);
    void (*utility)(const Problem&, const Rows&, const Reduction&);
};

// One instruction set.
struct Kernels {
    const char* name;
    double max_list_share;  // columns in at most this share of the pairs are counted by lists
    PairKernels<ChrfProblem> chrf;
    PairKernels<BleuProblem> bleu;
};

extern const Kernels portable_kernels;
#if defined(MINRISK_X86)
extern const Kernels avx2_kernels;
extern const Kernels avx512_kernels;
#endif

}  // namespace minrisk
