// Sentence BLEU with the smoothing methods of Chen & Cherry (2014), as sacreBLEU implements them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "task.hpp"
#include "tokens.hpp"

namespace minrisk {

struct BleuFrontEnd {
    int order = 4;
    Tokenizer tokenizer = Tokenizer::mteval_13a;

    bool operator==(const BleuFrontEnd&) const = default;

    std::vector<Kind> kinds(const Corpus& corpus) const {
        return {{token_symbols(corpus, tokenizer), order}};
    }
};

// What stands for the number of matches of an order that has none.
enum class Smoothing {
    none,
    floor,        // `value` matches
    add,          // `value` more matches and n-grams in every order but the first
    exponential,  // half a match in the first such order, a quarter in the second, and so on
};

struct Bleu {
    using Problem = BleuProblem;
    static constexpr double log_of_zero = -1e10;  // as in sacreBLEU
    static constexpr double rounding = 1e-9;      // weights that sum to 1 may miss it by as much

    Smoothing smoothing = Smoothing::exponential;
    double value = 0;
    bool effective_order = true;  // leave out orders that a hypothesis is too short for

    static const PairKernels<Problem>& kernels(const Kernels& kernels) { return kernels.bleu; }

    struct Precomputed {
        Buffer<BleuBlock> blocks;         // scores of the padding are never read
        Buffer<double> first_logs, logs;  // by number of matches

        Precomputed(const Bleu& metric, const Index& index, const Texts& texts)
            : blocks(blocks_for(texts.size())) {
            std::size_t longest = 0;
            for (std::size_t slot = 0; slot < texts.size(); ++slot) {
                longest = std::max(longest, index.orders.front().total(texts[slot]));
                metric.describe(index, texts[slot], blocks[slot / lanes], slot % lanes);
            }
            first_logs.push_back(log_of_zero);
            logs.push_back(metric.added() > 0 ? std::log(metric.added()) : 0.0);
            for (std::size_t matches = 1; matches <= longest; ++matches) {
                first_logs.push_back(std::log(double(matches)));
                logs.push_back(std::log(double(matches) + metric.added()));
            }
        }
    };

    Problem problem(const minrisk::Problem& bits, const Precomputed& hyps,
                    const Precomputed& refs) const {
        Problem result{bits, hyps.blocks.data(), refs.blocks.data(), hyps.first_logs.data(),
                       hyps.logs.data(), 0, 0};
        // the n-th order without a match counts as 1 / 2^n: -n log 2, summed up
        if (smoothing == Smoothing::exponential)
            result.unmatched = result.unmatched_squared = -std::numbers::ln2 / 2;
        else if (added() == 0)
            result.unmatched = floor() > 0 ? std::log(floor()) : log_of_zero;
        return result;
    }

    double self_score(const Index& index, std::int64_t text) const {
        return orders_of(index, text) > 0 ? 100.0 : 0.0;
    }

    // An average may match less than once; such an order counts no less than one without a match.
    // The first order is never smoothed, so that the score goes to 0 with its matches.
    double score(const std::vector<Statistics>& orders) const {
        const auto have = std::ranges::count_if(orders, [](const auto& o) { return o.hyp > 0; });
        const std::size_t mean_over = orders_that_count(have, orders.size());
        if (mean_over == 0) return 0;
        double least = floor(), sum = 0;
        for (std::size_t k = 0; k < mean_over; ++k) {
            const double more = k > 0 ? added() : 0;
            double match = orders[k].match + more;
            if (k > 0 && match < std::min(1.0, least) * (1 - rounding)) {
                match = least;
                if (smoothing == Smoothing::exponential) least /= 2;
            }
            if (match == 0) return 0;
            sum += std::log(match / (orders[k].hyp + more));
        }
        const double brevity = std::min(0.0, 1 - orders[0].ref / orders[0].hyp);
        return 100 * std::exp(sum / double(mean_over) + brevity);
    }

private:
    double added() const { return smoothing == Smoothing::add ? value : 0; }

    // What stands for the matches of the first order without a match.
    double floor() const {
        if (smoothing == Smoothing::exponential) return 0.5;
        return smoothing == Smoothing::floor ? value : 0;
    }

    // Number of precisions in the mean, for a hypothesis that has n-grams of `have` orders; 0 if
    // its score is 0 with any reference.
    std::size_t orders_that_count(std::size_t have, std::size_t orders) const {
        if (have == 0 || added() > 0) return have == 0 ? 0 : orders;
        return have == orders || effective_order ? have : 0;
    }

    std::size_t orders_of(const Index& index, std::int64_t text) const {
        const std::size_t orders = index.orders.size();
        return orders_that_count(index.orders_of(text, 0, orders), orders);
    }

    void describe(const Index& index, std::int64_t text, BleuBlock& block, std::size_t lane) const {
        const double length = double(index.orders.front().total(text));
        block.length[lane] = length;
        block.inverse_length[lane] = length > 0 ? 1 / length : 0;
        block.constant[lane] = log_of_zero;
        const std::size_t mean_over = orders_of(index, text);
        if (mean_over == 0) return;
        double logs = 0;
        for (std::size_t k = 0; k < mean_over; ++k)
            logs += std::log(double(index.orders[k].total(text)) + (k > 0 ? added() : 0));
        block.inverse_orders[lane] = 1 / double(mean_over);
        block.missing[lane] = double(index.orders.size() - mean_over);
        block.constant[lane] = std::log(100.0) - logs / double(mean_over);
    }
};

using BleuTexts = IndexedTexts<BleuFrontEnd>;
using BleuTask = Task<BleuFrontEnd, Bleu>;

}  // namespace minrisk
