// Texts as chrF sees them, and the two ways to score them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>
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

// Which texts are the same to chrF, for instance but for white space. They share a row of the
// index: then their scores are equal to the last bit, and a tie is a tie.
inline Numbers rows_of_texts(const std::vector<Symbols>& kinds, Numbers& firsts) {
    const auto hash = [&](std::uint32_t text) {
        std::uint64_t sum = 0;
        for (const Symbols& symbols : kinds)
            for (std::uint32_t symbol : symbols[text])
                sum = (sum ^ symbol) * 0x9e3779b97f4a7c15u + (sum >> 32);
        return static_cast<std::size_t>(sum);
    };
    const auto same = [&](std::uint32_t a, std::uint32_t b) {
        return std::all_of(kinds.begin(), kinds.end(), [&](const Symbols& symbols) {
            return std::ranges::equal(symbols[a], symbols[b]);
        });
    };
    const std::size_t count = kinds.front().texts();
    std::unordered_map<std::uint32_t, std::uint32_t, decltype(hash), decltype(same)> found(
        count, hash, same);
    Numbers rows(count);
    for (std::uint32_t text = 0; text < count; ++text) {
        const auto [entry, is_new] = found.try_emplace(text, std::uint32_t(firsts.size()));
        if (is_new) firsts.push_back(text);
        rows[text] = entry->second;
    }
    return rows;
}

struct ChrfIndex {
    Numbers rows;  // (texts) the row of each text
    Index index;
};

// A batch of texts; the index of their n-grams is built when it is first needed.
class ChrfTexts {
public:
    ChrfTexts(Corpus corpus, ChrfOptions options)
        : corpus_(std::move(corpus)), options_(options) {}

    std::size_t size() const { return corpus_.size(); }
    const Corpus& corpus() const { return corpus_; }
    const ChrfOptions& options() const { return options_; }

    bool is_indexed() {
        std::lock_guard guard(lock_);
        return index_ != nullptr;
    }

    // Built without the lock, for polling may run a signal handler that asks for it too.
    const ChrfIndex& index(const Workers& workers) {
        {
            std::lock_guard guard(lock_);
            if (index_) return *index_;
        }
        auto built = std::make_unique<const ChrfIndex>(build(workers));
        std::lock_guard guard(lock_);
        if (!index_) index_ = std::move(built);
        return *index_;
    }

private:
    ChrfIndex build(const Workers& workers) const {
        std::vector<Symbols> kinds;
        std::vector<int> orders;
        if (options_.order > 0) {
            kinds.push_back(character_symbols(corpus_, options_.whitespace));
            orders.push_back(options_.order);
        }
        if (options_.word_order > 0) {
            kinds.push_back(word_symbols(corpus_));
            orders.push_back(options_.word_order);
        }
        ChrfIndex result;
        Numbers firsts;
        result.rows = rows_of_texts(kinds, firsts);
        result.index.texts = firsts.size();
        result.index.char_orders = options_.order;
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            kinds[i].keep(firsts);
            index_ngrams(kinds[i], orders[i], workers, result.index.orders);
        }
        return result;
    }

    Corpus corpus_;
    ChrfOptions options_;
    std::mutex lock_;
    std::unique_ptr<const ChrfIndex> index_;
};

// Rows of the index without repetition, and where each given text is among them.
struct Distinct {
    Texts rows;
    std::vector<std::size_t> place;

    Distinct(const std::int64_t* texts, std::size_t count, const ChrfIndex& chrf) {
        std::vector<std::int64_t> slot(chrf.index.texts, -1);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t row = chrf.rows[texts[i]];
            if (slot[row] < 0) {
                slot[row] = std::int64_t(rows.size());
                rows.push_back(row);
            }
            place.push_back(std::size_t(slot[row]));
        }
    }
};

// Hypotheses against rows of weighted texts.
struct ChrfProblem {
    ChrfTexts& texts;
    Texts hyps;
    Averages refs;
    double factor;
    bool smoothed;

    // Of the texts that there is work with: all until they are indexed, then those in use.
    std::size_t characters() const {
        const std::size_t all = texts.corpus().characters.size();
        const std::size_t used = hyps.size() + std::size_t(refs.offsets[refs.count]);
        if (!texts.is_indexed() || used >= texts.size()) return all;
        return all * used / texts.size();
    }

    // (H, R)
    std::vector<double> scores(const Kernels& kernels, const Workers& workers) const {
        const ChrfIndex& chrf = texts.index(workers);
        const Distinct ours(hyps.data(), hyps.size(), chrf);
        if (!refs_are_texts()) {
            std::vector<double> matrix(ours.rows.size() * refs.count);
            each_average_score(chrf, ours.rows, workers,
                               [&](std::size_t h, std::size_t g, double score) {
                                   matrix[h * refs.count + g] = score;
                               });
            return expanded(std::move(matrix), refs.count, ours.place, identity(refs.count));
        }
        const Distinct theirs(refs.members, refs.count, chrf);
        const Pairs pairs(chrf.index, ours.rows, theirs.rows, factor, smoothed, kernels, workers);
        return expanded(pairs.scores(), theirs.rows.size(), ours.place, theirs.place);
    }

    // (H,)
    std::vector<double> utility(const double* mass, const Kernels& kernels,
                                const Workers& workers) const {
        const ChrfIndex& chrf = texts.index(workers);
        const Distinct ours(hyps.data(), hyps.size(), chrf);
        if (!refs_are_texts())
            return expanded(average_utility(chrf, ours.rows, mass, workers), 1, ours.place, {0});
        const Distinct theirs(refs.members, refs.count, chrf);
        std::vector<double> distinct_mass(theirs.rows.size());
        for (std::size_t r = 0; r < refs.count; ++r) distinct_mass[theirs.place[r]] += mass[r];
        const Pairs pairs(chrf.index, ours.rows, theirs.rows, factor, smoothed, kernels, workers);
        return expanded(pairs.utility(distinct_mass.data()), 1, ours.place, {0});
    }

private:
    // Each reference is one text: then all pairs are cheap, and exact.
    bool refs_are_texts() const {
        for (std::size_t g = 0; g < refs.count; ++g)
            if (refs.offsets[g + 1] - refs.offsets[g] != 1 || refs.weights[refs.offsets[g]] != 1.0)
                return false;
        return true;
    }

    template <class Use>
    void each_average_score(const ChrfIndex& chrf, const Texts& rows, const Workers& workers,
                            Use&& use) const {
        Texts members(refs.members, refs.members + refs.offsets[refs.count]);
        for (std::int64_t& member : members) member = chrf.rows[member];
        score_all_averages(chrf.index, rows,
                           {refs.offsets, members.data(), refs.weights, refs.count}, factor,
                           smoothed, workers, use);
    }

    // Each tile of averages has sums of its own, added up in one order whoever made them.
    std::vector<double> average_utility(const ChrfIndex& chrf, const Texts& rows,
                                        const double* mass, const Workers& workers) const {
        std::vector<Buffer<double>> parts((refs.count + lanes - 1) / lanes,
                                          Buffer<double>(rows.size()));
        each_average_score(chrf, rows, workers, [&](std::size_t h, std::size_t g, double score) {
            parts[g / lanes][h] += score * mass[g];
        });
        std::vector<double> result(rows.size());
        for (const auto& part : parts)
            for (std::size_t h = 0; h < rows.size(); ++h) result[h] += part[h];
        return result;
    }

    static std::vector<std::size_t> identity(std::size_t count) {
        std::vector<std::size_t> result(count);
        std::iota(result.begin(), result.end(), std::size_t{0});
        return result;
    }

    // A matrix of distinct rows and columns, with each repetition in its place.
    static std::vector<double> expanded(std::vector<double> matrix, std::size_t width,
                                        const std::vector<std::size_t>& rows,
                                        const std::vector<std::size_t>& columns) {
        if (matrix.size() == rows.size() * columns.size()) return matrix;  // nothing is repeated
        std::vector<double> result;
        result.reserve(rows.size() * columns.size());
        for (std::size_t row : rows)
            for (std::size_t column : columns) result.push_back(matrix[row * width + column]);
        return result;
    }
};

}  // namespace minrisk
