// Scores against averaged references, in one pass over the hypotheses and one over the references.
//
// With A(x) the average count of n-gram x, a hypothesis with c of them matches min(c, A(x)): the
// sum over its occurrences t = 0 .. c - 1 of A(x) - t, clipped to between 0 and 1. So an average
// gives each column a value, and a match is the sum of the values of the text's columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel.hpp"
#include "ngrams.hpp"
#include "parallel.hpp"

namespace minrisk {

// Rows of weighted texts; row g is made of the members from offsets[g] to offsets[g + 1].
struct Averages {
    const std::int64_t* offsets;  // (rows + 1)
    const std::int64_t* members;
    const double* weights;
    std::size_t count;
};

// The n-grams of one order that a hypothesis has, that an average has, and that both have.
struct Statistics {
    double hyp, ref, match;
};

namespace detail {

// Values of `width` averages side by side: 1 for a single average, 8 for many.
template <int width>
struct Lanes {
    double v[width]{};

    void operator+=(const Lanes& other) {
        for (int i = 0; i < width; ++i) v[i] += other.v[i];
    }
    void add(double weight, const Lanes& other) {
        for (int i = 0; i < width; ++i) v[i] += weight * other.v[i];
    }
    bool is_zero() const {
        return std::all_of(v, v + width, [](double x) { return x == 0; });
    }
};

// Matches of `width` averages with each hypothesis, in one order.
template <int width>
struct Matches {
    Buffer<Lanes<width>> match;  // (hypotheses)
    Lanes<width> total;          // n-grams of each average
};

// The value of each column: its n-gram's average count, less the occurrences before it, clipped.
template <int width>
Buffer<Lanes<width>> column_values(const Order& order, const Buffer<Lanes<width>>& weights) {
    Buffer<Lanes<width>> value(order.next.size());
    for (std::size_t t = 0; t < weights.size(); ++t) {
        if (weights[t].is_zero()) continue;
        for (std::size_t i = order.starts[t]; i < order.starts[t + 1]; ++i)
            value[order.columns[i]] += weights[t];
    }
    for (std::uint32_t x = 0; x < order.ngrams; ++x) {
        Lanes<width> rest;
        for (std::uint32_t c = x;; c = order.next[c]) {
            rest += value[c];
            if (order.next[c] == 0) break;
        }
        for (std::uint32_t c = x;; c = order.next[c]) {
            for (int i = 0; i < width; ++i) {
                value[c].v[i] = std::clamp(rest.v[i], 0.0, 1.0);
                rest.v[i] -= 1;
            }
            if (order.next[c] == 0) break;
        }
    }
    return value;
}

template <int width>
Matches<width> matches_of(const Order& order, const Texts& hyps,
                          const Buffer<Lanes<width>>& weights) {
    const auto value = column_values(order, weights);
    Matches<width> result;
    result.match.resize(hyps.size());
    for (std::size_t h = 0; h < hyps.size(); ++h)
        for (std::size_t i = order.starts[hyps[h]]; i < order.starts[hyps[h] + 1]; ++i)
            result.match[h] += value[order.columns[i]];
    for (std::size_t t = 0; t < weights.size(); ++t)
        result.total.add(double(order.total(t)), weights[t]);
    return result;
}

// Calls use(hypothesis, row, score) for `width` averages from `first` on.
template <int width, class Metric, class Use>
void score_averages(const Index& index, const Texts& hyps, const Averages& averages,
                    std::size_t first, const Metric& metric, const Workers& workers, Use&& use) {
    Buffer<Lanes<width>> weights(index.texts);
    const std::size_t count = std::min<std::size_t>(width, averages.count - first);
    for (std::size_t g = 0; g < count; ++g)
        for (auto i = averages.offsets[first + g]; i < averages.offsets[first + g + 1]; ++i)
            weights[averages.members[i]].v[g] += averages.weights[i];

    const std::size_t orders = index.orders.size();
    std::vector<Matches<width>> matches(orders);
    workers.each(orders, [&](std::size_t k, int) {
        matches[k] = matches_of(index.orders[k], hyps, weights);
    });
    std::vector<Statistics> statistics(orders);
    for (std::size_t h = 0; h < hyps.size(); ++h) {
        for (std::size_t g = 0; g < count; ++g) {
            for (std::size_t k = 0; k < orders; ++k)
                statistics[k] = {double(index.orders[k].total(hyps[h])), matches[k].total.v[g],
                                 matches[k].match[h].v[g]};
            use(h, first + g, metric.score(statistics));
        }
    }
}

}  // namespace detail

// Calls use(hypothesis, row, score) for every pair; calls for rows of different tiles of `lanes`
// may be concurrent.
template <class Metric, class Use>
void score_all_averages(const Index& index, const Texts& hyps, const Averages& averages,
                        const Metric& metric, const Workers& workers, Use&& use) {
    if (averages.count == 1) {
        detail::score_averages<1>(index, hyps, averages, 0, metric, workers, use);
        return;
    }
    const std::size_t tiles = (averages.count + lanes - 1) / lanes;
    const Workers alone{1};
    const bool few = tiles < std::size_t(workers.threads);  // then threads share the orders instead
    (few ? alone : workers).each(tiles, [&](std::size_t tile, int) {
        detail::score_averages<lanes>(index, hyps, averages, tile * lanes, metric,
                                      few ? workers : alone, use);
    });
}

}  // namespace minrisk
