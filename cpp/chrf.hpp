// Texts as chrF sees them, and the two ways to score them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "aggregate.hpp"
#include "ngrams.hpp"
#include "pairs.hpp"
#include "text.hpp"

namespace minrisk {

struct ChrfOptions {
    int order = 6, word_order = 0;
    bool whitespace = false;

    bool operator==(const ChrfOptions&) const = default;
};

// A batch of texts; the index of their n-grams is built when it is first needed.
class ChrfTexts {
public:
    ChrfTexts(Corpus corpus, ChrfOptions options)
        : corpus_(std::move(corpus)), options_(options) {}

    std::size_t size() const { return corpus_.size(); }
    const Corpus& corpus() const { return corpus_; }
    const ChrfOptions& options() const { return options_; }

    const Index& index(const Workers& workers) {
        std::lock_guard guard(lock_);
        if (!index_) index_ = std::make_unique<const Index>(build(workers));
        return *index_;
    }

private:
    Index build(const Workers& workers) const {
        Index index;
        index.texts = corpus_.size();
        index.char_orders = options_.order;
        if (options_.order > 0)
            index_ngrams(character_symbols(corpus_, options_.whitespace), options_.order, workers,
                         index.orders);
        if (options_.word_order > 0)
            index_ngrams(word_symbols(corpus_), options_.word_order, workers, index.orders);
        return index;
    }

    Corpus corpus_;
    ChrfOptions options_;
    std::mutex lock_;
    std::unique_ptr<const Index> index_;
};

// Hypotheses against rows of weighted texts.
struct ChrfProblem {
    ChrfTexts& texts;
    Texts hyps;
    Averages refs;
    double factor;
    bool smoothed;

    // Each reference is one text of its own: then all pairs are cheap, and exact.
    bool refs_are_texts() const {
        std::vector<bool> seen(texts.size());
        for (std::size_t g = 0; g < refs.count; ++g) {
            if (refs.offsets[g + 1] - refs.offsets[g] != 1) return false;
            const std::int64_t i = refs.offsets[g];
            if (refs.weights[i] != 1.0 || seen[refs.members[i]]) return false;
            seen[refs.members[i]] = true;
        }
        return true;
    }

    Pairs pairs(const Kernels& kernels, const Workers& workers) const {
        Texts rows(refs.members, refs.members + refs.offsets[refs.count]);
        return Pairs(texts.index(workers), hyps, std::move(rows), factor, smoothed, kernels,
                     workers);
    }

    // (H, R)
    std::vector<double> scores(const Kernels& kernels, const Workers& workers) const {
        if (refs_are_texts()) return pairs(kernels, workers).scores();
        std::vector<double> result(hyps.size() * refs.count);
        score_all_averages(texts.index(workers), hyps, refs, factor, smoothed, workers,
                           [&](std::size_t h, std::size_t g, double score) {
                               result[h * refs.count + g] = score;
                           });
        return result;
    }

    // (H,)
    std::vector<double> utility(const double* mass, const Kernels& kernels,
                                const Workers& workers) const {
        if (refs_are_texts()) return pairs(kernels, workers).utility(mass);
        std::vector<double> result(hyps.size());
        const std::vector<double> matrix = scores(kernels, workers);
        for (std::size_t h = 0; h < hyps.size(); ++h)
            for (std::size_t g = 0; g < refs.count; ++g)
                result[h] += matrix[h * refs.count + g] * mass[g];
        return result;
    }
};

}  // namespace minrisk
