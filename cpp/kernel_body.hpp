// The pair kernels, written once over `register_bytes` and a `Counter` that each instruction set
// brings: it counts common bits of one hypothesis with `lanes` references. Everything else is plain
// arithmetic on lanes in one fixed order, so that all instruction sets give the same bits.
//
// Included inside a namespace of the including file's own.

using Register = double __attribute__((vector_size(register_bytes)));

// `lanes` doubles in registers: GCC copies longer vectors in small pieces through memory.
struct Doubles {
    static constexpr int count = lanes * 8 / register_bytes, width = register_bytes / 8;
    Register parts[count];

    double& operator[](std::int64_t lane) { return reinterpret_cast<double*>(parts)[lane]; }
};

#define MINRISK_LANE_OPERATOR(op)                                                            \
    [[gnu::always_inline]] inline Doubles operator op(const Doubles& a, const Doubles& b) {    \
        Doubles found;                                                                       \
        for (int i = 0; i < Doubles::count; ++i) found.parts[i] = a.parts[i] op b.parts[i];   \
        return found;                                                                        \
    }                                                                                        \
    [[gnu::always_inline]] inline Doubles operator op(const Doubles& a, double b) {            \
        Doubles found;                                                                       \
        for (int i = 0; i < Doubles::count; ++i) found.parts[i] = a.parts[i] op b;            \
        return found;                                                                        \
    }                                                                                        \
    [[gnu::always_inline]] inline Doubles operator op(double a, const Doubles& b) {            \
        Doubles found;                                                                       \
        for (int i = 0; i < Doubles::count; ++i) found.parts[i] = a op b.parts[i];            \
        return found;                                                                        \
    }

MINRISK_LANE_OPERATOR(+)
MINRISK_LANE_OPERATOR(-)
MINRISK_LANE_OPERATOR(*)
MINRISK_LANE_OPERATOR(/)
#undef MINRISK_LANE_OPERATOR

[[gnu::always_inline]] inline Doubles& operator+=(Doubles& a, const Doubles& b) {
    return a = a + b;
}

inline Doubles load(const double* from) {
    Doubles result;
    __builtin_memcpy(&result, from, sizeof result);
    return result;
}

inline void store(double* to, Doubles values) { __builtin_memcpy(to, &values, sizeof values); }

// a > b ? yes : no
[[gnu::always_inline]] inline Doubles where_greater(const Doubles& a, const Doubles& b,
                                                    const Doubles& yes, const Doubles& no) {
    Doubles found;
    for (int i = 0; i < Doubles::count; ++i)
        found.parts[i] = a.parts[i] > b.parts[i] ? yes.parts[i] : no.parts[i];
    return found;
}

[[gnu::always_inline]] inline Doubles smaller(Doubles a, Doubles b) {
    return where_greater(b, a, a, b);
}

[[gnu::always_inline]] inline Doubles larger(Doubles a, Doubles b) {
    return where_greater(a, b, a, b);
}

[[gnu::always_inline]] inline Doubles matches_of(const Counter& count) {
    const auto result = count.result();
    Doubles matches;
    static_assert(sizeof result == sizeof matches);
    __builtin_memcpy(&matches, &result, sizeof matches);
    return matches;
}

// The scores of `lanes` pairs in both directions.
struct Scores {
    Doubles forward, backward;
};

#include "kernel_chrf.hpp"

#include "kernel_bleu.hpp"

// Scores of `rows` hypotheses with one block of references. A formula receives the matches of each
// order and computes the scores.
template <class Formula, class Problem>
inline void score_block(const Problem& problem, const Rows& group, std::int64_t block,
                        Scores* out) {
    const std::int64_t orders = problem.orders, words = problem.order_words[orders];
    const std::uint64_t* hyp =
        problem.hyps.bits + group.first / lanes * words * lanes + group.first % lanes;
    const std::uint64_t* ref = problem.refs.bits + block * words * lanes;
    const std::int64_t stride = problem.refs.blocks * lanes;
    const std::uint16_t* list_matches = group.list_matches + block * lanes;

    Formula formula[rows];
    for (std::int64_t k = 0; k < orders; ++k) {
        Counter count[rows];
        for (int i = 0; i < rows; ++i) count[i].start(list_matches + (i * orders + k) * stride);
        for (std::int64_t w = problem.order_words[k]; w < problem.order_words[k + 1]; ++w)
            for (int i = 0; i < rows; ++i) count[i].add(ref + w * lanes, hyp[w * lanes + i]);
        for (int i = 0; i < rows; ++i) formula[i].add(problem, k, group.first + i, block, count[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
        out[i] = formula[i].scores(problem, group.first + i, block);
        // n-grams that only this text contains have no column
        if (group.self[i] >= 0 && group.self[i] / lanes == block)
            out[i].forward[group.self[i] % lanes] = group.self_score[i];
    }
}

template <class Formula, class Problem>
void scores_of(const Problem& problem, const Rows& group, double* scores, std::int64_t stride) {
    for (std::int64_t block = 0; block < problem.refs.blocks; ++block) {
        Scores found[rows];
        score_block<Formula>(problem, group, block, found);
        for (int i = 0; i < rows; ++i)
            store(scores + i * stride + block * lanes, found[i].forward);
    }
}

template <class Formula, class Problem>
void utility_of(const Problem& problem, const Rows& group, const Reduction& to) {
    // pairs within this block are all computed forwards
    const std::int64_t own = to.backward ? group.first / lanes : -1;
    Doubles forward[rows] = {};
    for (std::int64_t block = own < 0 ? 0 : own; block < problem.refs.blocks; ++block) {
        Scores found[rows];
        score_block<Formula>(problem, group, block, found);
        const Doubles mass = load(to.mass + block * lanes);
        for (int i = 0; i < rows; ++i) forward[i] += mass * found[i].forward;
        if (!to.backward || block == own) continue;
        Doubles backward = load(to.backward + block * lanes);
        for (int i = 0; i < rows; ++i) backward += to.mass[group.first + i] * found[i].backward;
        store(to.backward + block * lanes, backward);
    }
    for (int i = 0; i < rows; ++i) store(to.forward + i * lanes, forward[i]);
}

inline void chrf_scores(const ChrfProblem& problem, const Rows& group, double* scores,
                        std::int64_t stride) {
    problem.smoothed ? scores_of<ChrfFormula<FThenMean>>(problem, group, scores, stride)
                     : scores_of<ChrfFormula<MeanThenF>>(problem, group, scores, stride);
}

inline void chrf_utility(const ChrfProblem& problem, const Rows& group, const Reduction& to) {
    problem.smoothed ? utility_of<ChrfFormula<FThenMean>>(problem, group, to)
                     : utility_of<ChrfFormula<MeanThenF>>(problem, group, to);
}

constexpr Kernels kernels_of(const char* name, double max_list_share) {
    return {name, max_list_share, {chrf_scores, chrf_utility},
            {scores_of<BleuFormula, BleuProblem>, utility_of<BleuFormula, BleuProblem>}};
}
