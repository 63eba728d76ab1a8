// chrF and chrF++.
#pragma once

#include <cstdint>
#include <vector>

#include "task.hpp"

namespace minrisk {

struct ChrfFrontEnd {
    int order = 6, word_order = 0;
    bool whitespace = false;

    bool operator==(const ChrfFrontEnd&) const = default;

    // Characters, then words.
    std::vector<Kind> kinds(const Corpus& corpus) const {
        std::vector<Kind> result;
        if (order > 0) result.push_back({character_symbols(corpus, whitespace), order});
        if (word_order > 0)
            result.push_back({word_symbols(corpus, [](auto text, auto use) {
                                  each_word_and_mark(text, use);
                              }), word_order});
        return result;
    }
};

inline double f_score(double precision, double recall, double factor) {
    const double bottom = factor * precision + recall;
    return bottom > 0 ? (1 + factor) * precision * recall / bottom : 0.0;
}

struct Chrf {
    using Problem = ChrfProblem;
    std::size_t char_orders;
    double factor;  // beta squared
    bool smoothed;

    static const PairKernels<Problem>& kernels(const Kernels& kernels) { return kernels.chrf; }

    struct Precomputed {
        Buffer<double> inverse_totals, char_orders, word_orders;

        Precomputed(const Chrf& metric, const Index& index, const Texts& texts)
            : inverse_totals(blocks_for(texts.size()) * index.orders.size() * lanes),
              char_orders(blocks_for(texts.size()) * lanes),
              word_orders(blocks_for(texts.size()) * lanes) {
            const std::size_t orders = index.orders.size();
            for (std::size_t slot = 0; slot < texts.size(); ++slot) {
                char_orders[slot] = double(index.orders_of(texts[slot], 0, metric.char_orders));
                word_orders[slot] =
                    double(index.orders_of(texts[slot], metric.char_orders, orders));
                for (std::size_t k = 0; k < orders; ++k)
                    if (const std::size_t total = index.orders[k].total(texts[slot]))
                        inverse_totals[(slot / lanes * orders + k) * lanes + slot % lanes] =
                            1.0 / double(total);
            }
        }

        ChrfSide side() const {
            return {inverse_totals.data(), char_orders.data(), word_orders.data()};
        }
    };

    Problem problem(const minrisk::Problem& bits, const Precomputed& hyps,
                    const Precomputed& refs) const {
        return {bits, hyps.side(), refs.side(), factor, smoothed};
    }

    double self_score(const Index& index, std::int64_t text) const {
        const std::size_t have = index.orders_of(text, 0, index.orders.size());
        if (smoothed) return 100.0 * double(have) / double(index.orders.size());
        return have > 0 ? 100.0 : 0.0;
    }

    double score(const std::vector<Statistics>& orders) const {
        double precision = 0, recall = 0, sum = 0;
        int have = 0;
        for (const auto& [hyp, ref, match] : orders) {
            if (hyp == 0 || ref == 0) continue;
            const double p = match / hyp, r = match / ref;
            precision += p, recall += r, ++have;
            if (smoothed) sum += f_score(p, r, factor);
        }
        if (smoothed) return 100 * (sum / double(orders.size()));
        return have ? 100 * f_score(precision / have, recall / have, factor) : 0.0;
    }
};

using ChrfTexts = IndexedTexts<ChrfFrontEnd>;
using ChrfTask = Task<ChrfFrontEnd, Chrf>;

}  // namespace minrisk
