// The pair kernels, written once over a `Counter` that each instruction set brings: it counts
// common bits of one hypothesis with `lanes` references. Everything else is plain arithmetic on
// lanes in one fixed order, so that all instruction sets give the same bits.
//
// Included inside a namespace of the including file's own.

using Doubles = double __attribute__((vector_size(lanes * 8)));

inline Doubles load(const double* from) {
    Doubles result;
    __builtin_memcpy(&result, from, sizeof result);
    return result;
}

inline void store(double* to, Doubles values) { __builtin_memcpy(to, &values, sizeof values); }

inline Doubles smaller(Doubles a, Doubles b) { return a < b ? a : b; }

// Without a match top and bottom are 0: a tiny bottom makes the quotient 0 instead of NaN.
inline Doubles quotient(Doubles top, Doubles bottom) {
    const Doubles tiny = Doubles{} + 1e-300;
    return top / (bottom > tiny ? bottom : tiny);
}

// The F-scores of `lanes` pairs, both ways round.
struct Scores {
    Doubles forward, backward;
};

// Precision and recall summed over the orders; one F of their means over the orders that both
// sides have: F(a / n, b / n) = (1 + f) a b / (n (f a + b)).
struct MeanThenF {
    Doubles precision{}, recall{};

    void add(Doubles p, Doubles r, double) { precision += p, recall += r; }

    Scores scores(const Problem& problem, Doubles orders) const {
        const Doubles top = 100 * (1 + problem.factor) * precision * recall;
        return {quotient(top, orders * (problem.factor * precision + recall)),
                quotient(top, orders * (problem.factor * recall + precision))};
    }
};

// One F per order, averaged over all orders.
struct FThenMean {
    Doubles forward{}, backward{};

    void add(Doubles p, Doubles r, double factor) {
        const Doubles top = (1 + factor) * p * r;
        forward += quotient(top, factor * p + r);
        backward += quotient(top, factor * r + p);
    }

    Scores scores(const Problem& problem, Doubles) const {
        const double scale = 100.0 / problem.orders;
        return {scale * forward, scale * backward};
    }
};

// Scores of `rows` hypotheses with one block of references.
template <class F>
inline void score_block(const Problem& problem, const Rows& group, std::int64_t block,
                        Scores* out) {
    const std::int64_t orders = problem.orders, words = problem.order_words[orders];
    const std::int64_t hyp_block = group.first / lanes, hyp_lane = group.first % lanes;
    const std::uint64_t* hyp = problem.hyps.bits + hyp_block * words * lanes + hyp_lane;
    const std::uint64_t* ref = problem.refs.bits + block * words * lanes;
    const double* hyp_inverse = problem.hyps.inverse_totals + hyp_block * orders * lanes + hyp_lane;
    const double* ref_inverse = problem.refs.inverse_totals + block * orders * lanes;
    const std::int64_t stride = problem.refs.blocks * lanes;
    const std::uint16_t* rare = group.rare + block * lanes;

    F f[rows];
    for (std::int64_t k = 0; k < orders; ++k) {
        Counter count[rows];
        for (int i = 0; i < rows; ++i) count[i].start(rare + (i * orders + k) * stride);
        for (std::int64_t w = problem.order_words[k]; w < problem.order_words[k + 1]; ++w)
            for (int i = 0; i < rows; ++i) count[i].add(ref + w * lanes, hyp[w * lanes + i]);
        for (int i = 0; i < rows; ++i) {
            const Doubles matches = count[i].result();
            f[i].add(matches * hyp_inverse[k * lanes + i], matches * load(ref_inverse + k * lanes),
                     problem.factor);
        }
    }
    for (int i = 0; i < rows; ++i) {
        const Doubles char_orders = Doubles{} + problem.hyps.char_orders[group.first + i];
        const Doubles word_orders = Doubles{} + problem.hyps.word_orders[group.first + i];
        out[i] = f[i].scores(
            problem, smaller(char_orders, load(problem.refs.char_orders + block * lanes)) +
                         smaller(word_orders, load(problem.refs.word_orders + block * lanes)));
        // the n-grams that only this text has are in no column
        if (group.self[i] >= 0 && group.self[i] / lanes == block)
            out[i].forward[group.self[i] % lanes] = group.self_score[i];
    }
}

template <class F>
void scores_of(const Problem& problem, const Rows& group, double* scores, std::int64_t stride) {
    for (std::int64_t block = 0; block < problem.refs.blocks; ++block) {
        Scores found[rows];
        score_block<F>(problem, group, block, found);
        for (int i = 0; i < rows; ++i)
            store(scores + i * stride + block * lanes, found[i].forward);
    }
}

template <class F>
void utility_of(const Problem& problem, const Rows& group, const Reduction& to) {
    const std::int64_t own = to.backward ? group.first / lanes : -1;  // both ways within this block
    Doubles forward[rows] = {};
    for (std::int64_t block = own < 0 ? 0 : own; block < problem.refs.blocks; ++block) {
        Scores found[rows];
        score_block<F>(problem, group, block, found);
        const Doubles mass = load(to.mass + block * lanes);
        for (int i = 0; i < rows; ++i) forward[i] += mass * found[i].forward;
        if (!to.backward || block == own) continue;
        Doubles backward = load(to.backward + block * lanes);
        for (int i = 0; i < rows; ++i) backward += to.mass[group.first + i] * found[i].backward;
        store(to.backward + block * lanes, backward);
    }
    for (int i = 0; i < rows; ++i) store(to.forward + i * lanes, forward[i]);
}

inline void scores_kernel(const Problem& problem, const Rows& group, double* scores,
                          std::int64_t stride) {
    problem.smoothed ? scores_of<FThenMean>(problem, group, scores, stride)
                     : scores_of<MeanThenF>(problem, group, scores, stride);
}

inline void utility_kernel(const Problem& problem, const Rows& group, const Reduction& to) {
    problem.smoothed ? utility_of<FThenMean>(problem, group, to)
                     : utility_of<MeanThenF>(problem, group, to);
}
