// chrF of `lanes` pairs; part of kernel_body.hpp.

// Without a match top and bottom are 0: a tiny bottom makes the quotient 0 instead of NaN.
inline Doubles quotient(Doubles top, Doubles bottom) {
    return top / larger(bottom, Doubles{} + 1e-300);
}

// Precision and recall summed over the orders; one F of their means over the orders that both
// sides have: F(a / n, b / n) = (1 + f) a b / (n (f a + b)).
struct MeanThenF {
    Doubles precision{}, recall{};

    void add(Doubles p, Doubles r, double) { precision += p, recall += r; }

    Scores scores(const ChrfProblem& problem, Doubles orders) const {
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

    Scores scores(const ChrfProblem& problem, Doubles) const {
        const double scale = 100.0 / problem.orders;
        return {scale * forward, scale * backward};
    }
};

template <class F>
struct ChrfFormula {
    F f;

    void add(const ChrfProblem& problem, std::int64_t k, std::int64_t hyp, std::int64_t block,
             const Counter& count) {
        const std::int64_t orders = problem.orders;
        const double hyp_inverse =
            problem.hyp_side.inverse_totals[(hyp / lanes * orders + k) * lanes + hyp % lanes];
        const Doubles ref_inverse =
            load(problem.ref_side.inverse_totals + (block * orders + k) * lanes);
        const Doubles matches = matches_of(count);
        f.add(matches * hyp_inverse, matches * ref_inverse, problem.factor);
    }

    Scores scores(const ChrfProblem& problem, std::int64_t hyp, std::int64_t block) const {
        const Doubles char_orders = Doubles{} + problem.hyp_side.char_orders[hyp];
        const Doubles word_orders = Doubles{} + problem.hyp_side.word_orders[hyp];
        return f.scores(
            problem, smaller(char_orders, load(problem.ref_side.char_orders + block * lanes)) +
                         smaller(word_orders, load(problem.ref_side.word_orders + block * lanes)));
    }
};
