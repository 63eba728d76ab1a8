// BLEU of `lanes` pairs; part of kernel_body.hpp.

// Accurate to the last digit or two, with the same bits on every machine; 0 below the smallest
// normal number.
[[gnu::always_inline]] inline Doubles exponential(Doubles x) {
    using Words = std::int64_t __attribute__((vector_size(lanes * 8)));
    constexpr double shift = 0x1.8p52;  // the sum's last bits are a whole number
    const Doubles lowest = Doubles{} - 700;
    const Doubles bounded = larger(x, lowest);
    const Doubles shifted = bounded * 0x1.71547652b82fep0 + shift;  // 1 / log 2
    const Doubles whole = shifted - shift;
    const Doubles rest = (bounded - whole * 0x1.62e42fefa38p-1) - whole * 0x1.ef35793c7673p-45;
    constexpr double inverse_factorials[] = {  // from 13! down to 0!
        1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
        1 / 40320.0,      1 / 5040.0,      1 / 720.0,      1 / 120.0,     1 / 24.0,
        1 / 6.0,          1 / 2.0,         1.0,            1.0};
    Doubles sum{};
    for (double coefficient : inverse_factorials) sum = sum * rest + coefficient;
    Words bits, exponent;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    __builtin_memcpy(&exponent, &shifted, sizeof exponent);
    bits += exponent << 52;
    __builtin_memcpy(&sum, &bits, sizeof sum);
    return where_greater(x, lowest, sum, Doubles{});
}

// The values of all texts of a block, or of one text in all lanes.
struct BleuTerms {
    Doubles length, inverse_length, inverse_orders, missing, constant;

    explicit BleuTerms(const BleuBlock& block)
        : length(load(block.length)), inverse_length(load(block.inverse_length)),
          inverse_orders(load(block.inverse_orders)), missing(load(block.missing)),
          constant(load(block.constant)) {}

    BleuTerms(const BleuBlock& block, std::int64_t lane)
        : length(Doubles{} + block.length[lane]),
          inverse_length(Doubles{} + block.inverse_length[lane]),
          inverse_orders(Doubles{} + block.inverse_orders[lane]),
          missing(Doubles{} + block.missing[lane]), constant(Doubles{} + block.constant[lane]) {}
};

struct BleuFormula {
    Doubles logs{}, unmatched{};

    void add(const BleuProblem& problem, std::int64_t k, std::int64_t, std::int64_t,
             const Counter& count) {
        std::uint64_t matches[lanes];
        count.store(matches);
        const double* table = k == 0 ? problem.first_logs : problem.logs;
        Doubles found;
        for (int lane = 0; lane < lanes; ++lane) found[lane] = table[matches[lane]];
        logs += found;
        unmatched += where_greater(matches_of(count), Doubles{}, Doubles{}, Doubles{} + 1);
    }

    Scores scores(const BleuProblem& problem, std::int64_t hyp, std::int64_t block) const {
        const BleuTerms one(problem.hyp_side[hyp / lanes], hyp % lanes);
        const BleuTerms others(problem.ref_side[block]);
        return {score(problem, one, others), score(problem, others, one)};
    }

    Doubles score(const BleuProblem& problem, const BleuTerms& hyp, const BleuTerms& ref) const {
        const Doubles brevity = smaller(1 - ref.length * hyp.inverse_length, Doubles{});
        const Doubles zeros = unmatched - hyp.missing;
        const Doubles smoothing = zeros * (problem.unmatched + zeros * problem.unmatched_squared);
        return exponential(hyp.constant + brevity + hyp.inverse_orders * (logs + smoothing));
    }
};
