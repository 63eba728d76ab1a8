// Every way that the core scores texts, against the formula.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "../../cpp/simd.hpp"
#include "reference.hpp"

namespace checks {

using minrisk::Texts;

// Texts of which some are hypotheses and all are references, with their weights. The references
// from offsets[g] to offsets[g + 1] are averaged.
struct Case {
    reference::Strings texts;
    Texts hyps;
    std::vector<double> weights;
    std::vector<std::int64_t> offsets;
};

inline minrisk::Corpus corpus_of(const reference::Strings& texts) {
    minrisk::Corpus corpus;
    for (const auto& text : texts) {
        corpus.characters.insert(corpus.characters.end(), text.begin(), text.end());
        corpus.close_text();
    }
    return corpus;
}

inline Texts first_texts(std::size_t count) {
    Texts result(count);
    for (std::size_t i = 0; i < count; ++i) result[i] = std::int64_t(i);
    return result;
}

// Scores are sums of a few dozen roundings, of numbers up to 100 and mostly not far below that.
inline bool close(const std::vector<double>& a, const std::vector<double>& b) {
    for (std::size_t i = 0; i < a.size() && a.size() == b.size(); ++i)
        if (!(std::abs(a[i] - b[i]) <= 1e-11 * std::max(100.0, std::abs(b[i])))) return false;
    return a.size() == b.size();
}

// (rows,) of a matrix with as many columns as there are masses.
inline std::vector<double> product(const std::vector<double>& matrix,
                                   const std::vector<double>& mass) {
    std::vector<double> result;
    for (std::size_t i = 0; i < matrix.size(); i += mass.size()) {
        result.push_back(0);
        for (std::size_t j = 0; j < mass.size(); ++j) result.back() += matrix[i + j] * mass[j];
    }
    return result;
}

template <class FrontEnd, class Metric>
class Expected {
public:
    Expected(const Case& given, const FrontEnd& front_end, const Metric& metric)
        : given_(given), metric_(metric) {
        reference::Numbering numbering;
        for (const auto& text : given.texts) counts_.push_back(numbering.counts(front_end, text));
    }

    // (H, R)
    std::vector<double> pairs(const Texts& hyps) const {
        return scores(hyps, counts_);
    }

    // (H, G)
    std::vector<double> averages(const Texts& hyps,
                                 const std::vector<std::int64_t>& offsets) const {
        std::vector<std::vector<reference::Counts>> refs;
        for (std::size_t g = 0; g + 1 < offsets.size(); ++g) refs.push_back(average(offsets, g));
        return scores(hyps, refs);
    }

private:
    std::vector<double> scores(const Texts& hyps,
                               const std::vector<std::vector<reference::Counts>>& refs) const {
        std::vector<double> result;
        for (std::int64_t hyp : hyps)
            for (const auto& ref : refs) {
                const auto orders = reference::statistics(counts_[hyp], ref);
                result.push_back(reference::score(metric_, orders));
            }
        return result;
    }

    std::vector<reference::Counts> average(const std::vector<std::int64_t>& offsets,
                                           std::size_t g) const {
        const auto from = offsets[g], to = offsets[g + 1];
        if (from == to) return std::vector<reference::Counts>(counts_.front().size());
        return reference::average({counts_.begin() + from, counts_.begin() + to},
                                  {given_.weights.begin() + from, given_.weights.begin() + to});
    }

    const Case& given_;
    const Metric& metric_;
    std::vector<std::vector<reference::Counts>> counts_;  // (texts, orders)
};

// Pairs, utilities and averages, with every instruction set and these numbers of threads.
template <class FrontEnd, class Metric, class Check>
void check_scores(const Case& given, const FrontEnd& front_end, const Metric& metric,
                  const std::vector<int>& threads, Check check) {
    const std::size_t count = given.texts.size(), groups = given.offsets.size() - 1;
    const Texts members = first_texts(count), single = first_texts(count + 1);
    const std::vector<double> ones(count, 1.0), mass(groups, 0.25);
    const Expected expected(given, front_end, metric);
    const auto pairs = expected.pairs(given.hyps);
    const auto averages = expected.averages(given.hyps, given.offsets);
    const auto all_utilities = product(expected.pairs(members), given.weights);

    minrisk::IndexedTexts batch(corpus_of(given.texts), front_end);
    using Work = minrisk::Task<FrontEnd, Metric>;
    const minrisk::Averages each{single.data(), members.data(), ones.data(), count};
    const minrisk::Averages some{given.offsets.data(), members.data(), given.weights.data(),
                                 groups};
    const Work exact{batch, given.hyps, each, metric}, grouped{batch, given.hyps, some, metric};
    Work all = exact;
    all.hyps = members;
    std::vector<double> first;
    for (const minrisk::Kernels* kernels : minrisk::available_kernels())
        for (int number : threads) {
            const minrisk::Workers workers{number};
            check(close(exact.scores(*kernels, workers), pairs), "pairs");
            check(close(exact.utility(given.weights.data(), *kernels, workers),
                        product(pairs, given.weights)), "utilities");
            check(close(grouped.scores(*kernels, workers), averages), "averages");
            check(close(grouped.utility(mass.data(), *kernels, workers), product(averages, mass)),
                  "utilities of averages");
            const auto found = all.utility(given.weights.data(), *kernels, workers);
            check(close(found, all_utilities), "utilities of texts among themselves");
            if (first.empty()) first = found;
            check(found == first, "the same bits from every instruction set and thread");
        }
}

// References that come in two parts, of which only partial statistics are kept.
template <class FrontEnd, class Metric, class Check>
void check_parts(const Case& given, const FrontEnd& front_end, const Metric& metric,
                 std::size_t middle, Check check) {
    const std::size_t count = given.texts.size();
    const Texts members = first_texts(count);
    reference::Strings chosen;
    for (std::int64_t hyp : given.hyps) chosen.push_back(given.texts[hyp]);
    minrisk::IndexedTexts hyps(corpus_of(chosen), front_end);
    const minrisk::IndexedTexts refs(corpus_of(given.texts), front_end);
    const double* weights = given.weights.data();
    const auto border = members.begin() + middle;
    auto sum = minrisk::partial_statistics(hyps, refs, {members.begin(), border}, weights);
    const auto rest = minrisk::partial_statistics(hyps, refs, {border, members.end()},
                                                  weights + middle);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    const auto found = minrisk::finalize(hyps, first_texts(chosen.size()), sum.data(), metric);
    const Expected expected(given, front_end, metric);
    check(close(found, expected.averages(given.hyps, {0, std::int64_t(count)})), "parts");
}

}  // namespace checks
