// Texts in the representation of a metric, and their scores: against texts, against averages of
// texts, and against averages of which only partial statistics are known.
//
// A front end turns texts into symbols: `kinds(corpus)` of them, each with its maximum order of
// n-grams. A metric computes scores from matches: for pairs of texts with `Problem`, `kernels`,
// `Precomputed`, `problem` and `self_score`, for averages with `score`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "aggregate.hpp"
#include "hash.hpp"
#include "ngrams.hpp"
#include "pairs.hpp"
#include "partial_statistics.hpp"
#include "text.hpp"

namespace minrisk {

struct Kind {
    Symbols symbols;
    int order;  // maximum order of n-grams
};

// Texts with the same symbols, which may differ in white space, share a row of the index: their
// scores have the same bits, so that ties are exact.
inline Numbers rows_of_texts(const std::vector<Kind>& kinds, Numbers& firsts) {
    const auto hash = [&](std::uint32_t text) {
        std::uint64_t result = 0;
        for (const Kind& kind : kinds) result = hash_of(kind.symbols[text], result);
        return std::size_t(result);
    };
    const auto same = [&](std::uint32_t a, std::uint32_t b) {
        return std::all_of(kinds.begin(), kinds.end(), [&](const Kind& kind) {
            return std::ranges::equal(kind.symbols[a], kind.symbols[b]);
        });
    };
    const std::size_t count = kinds.front().symbols.texts();
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

struct TextIndex {
    Numbers rows;  // (texts) the row of each text
    Index index;
};

// A batch of texts; the index of their n-grams is built when it is first needed.
template <class FrontEnd>
class IndexedTexts {
public:
    IndexedTexts(Corpus corpus, FrontEnd front_end)
        : corpus_(std::move(corpus)), front_end_(front_end) {}

    std::size_t size() const { return corpus_.size(); }
    const Corpus& corpus() const { return corpus_; }
    const FrontEnd& front_end() const { return front_end_; }

    bool is_indexed() {
        std::lock_guard guard(lock_);
        return index_ != nullptr;
    }

    // Built without holding the lock: polling may run a signal handler that needs the index too.
    const TextIndex& index(const Workers& workers) {
        {
            std::lock_guard guard(lock_);
            if (index_) return *index_;
        }
        auto built = std::make_unique<const TextIndex>(build(workers));
        std::lock_guard guard(lock_);
        if (!index_) index_ = std::move(built);
        return *index_;
    }

    // Automata of the n-grams, built when they are first needed.
    const Automata& automata() {
        std::lock_guard guard(lock_);
        if (!automata_) {
            Automata built;
            for (const Kind& kind : front_end_.kinds(corpus_))
                built.emplace_back(kind.symbols, kind.order);
            automata_ = std::make_unique<const Automata>(std::move(built));
        }
        return *automata_;
    }

private:
    TextIndex build(const Workers& workers) const {
        std::vector<Kind> kinds = front_end_.kinds(corpus_);
        TextIndex result;
        Numbers firsts;
        result.rows = rows_of_texts(kinds, firsts);
        result.index.texts = firsts.size();
        for (Kind& kind : kinds) {
            kind.symbols.select(firsts);
            index_ngrams(kind.symbols, kind.order, workers, result.index.orders);
        }
        return result;
    }

    Corpus corpus_;
    FrontEnd front_end_;
    std::mutex lock_;
    std::unique_ptr<const TextIndex> index_;
    std::unique_ptr<const Automata> automata_;
};

// The distinct rows of given texts, and the place of each text among them.
struct DistinctRows {
    Texts distinct;
    std::vector<std::size_t> place;

    DistinctRows(const std::int64_t* texts, std::size_t count, const TextIndex& all) {
        std::vector<std::int64_t> slot(all.index.texts, -1);
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t row = all.rows[texts[i]];
            if (slot[row] < 0) {
                slot[row] = std::int64_t(distinct.size());
                distinct.push_back(row);
            }
            place.push_back(std::size_t(slot[row]));
        }
    }
};

// Hypotheses against rows of weighted texts.
template <class FrontEnd, class Metric>
struct Task {
    IndexedTexts<FrontEnd>& texts;
    Texts hyps;
    Averages refs;
    Metric metric;

    // Number of characters to process: of all texts until they are indexed, then of those in use.
    std::size_t characters() const {
        const std::size_t all = texts.corpus().characters.size();
        const std::size_t used = hyps.size() + std::size_t(refs.offsets[refs.count]);
        if (!texts.is_indexed() || used >= texts.size()) return all;
        return all * used / texts.size();
    }

    // (H, R)
    std::vector<double> scores(const Kernels& kernels, const Workers& workers) const {
        const TextIndex& all = texts.index(workers);
        const DistinctRows hyp_rows(hyps.data(), hyps.size(), all);
        if (!refs_are_texts()) {
            std::vector<double> matrix(hyp_rows.distinct.size() * refs.count);
            each_average_score(all, hyp_rows.distinct, workers,
                               [&](std::size_t h, std::size_t g, double score) {
                                   matrix[h * refs.count + g] = score;
                               });
            return expanded(std::move(matrix), refs.count, hyp_rows.place, identity(refs.count));
        }
        const DistinctRows ref_rows(refs.members, refs.count, all);
        const Pairs pairs(all.index, hyp_rows.distinct, ref_rows.distinct, metric, kernels,
                          workers);
        return expanded(pairs.scores(), ref_rows.distinct.size(), hyp_rows.place, ref_rows.place);
    }

    // (H,)
    std::vector<double> utility(const double* mass, const Kernels& kernels,
                                const Workers& workers) const {
        const TextIndex& all = texts.index(workers);
        const DistinctRows hyp_rows(hyps.data(), hyps.size(), all);
        if (!refs_are_texts())
            return expanded(average_utility(all, hyp_rows.distinct, mass, workers), 1,
                            hyp_rows.place, {0});
        const DistinctRows ref_rows(refs.members, refs.count, all);
        std::vector<double> distinct_mass(ref_rows.distinct.size());
        for (std::size_t r = 0; r < refs.count; ++r) distinct_mass[ref_rows.place[r]] += mass[r];
        const Pairs pairs(all.index, hyp_rows.distinct, ref_rows.distinct, metric, kernels,
                          workers);
        return expanded(pairs.utility(distinct_mass.data()), 1, hyp_rows.place, {0});
    }

private:
    // Whether each reference is a single text: then all pairs are computed, which is cheap and
    // exact.
    bool refs_are_texts() const {
        for (std::size_t g = 0; g < refs.count; ++g)
            if (refs.offsets[g + 1] - refs.offsets[g] != 1 || refs.weights[refs.offsets[g]] != 1.0)
                return false;
        return true;
    }

    template <class Use>
    void each_average_score(const TextIndex& all, const Texts& rows, const Workers& workers,
                            Use&& use) const {
        Texts members(refs.members, refs.members + refs.offsets[refs.count]);
        for (std::int64_t& member : members) member = all.rows[member];
        score_all_averages(all.index, rows,
                           {refs.offsets, members.data(), refs.weights, refs.count}, metric,
                           workers, use);
    }

    // Each tile of averages has its own sums, which are added up in a fixed order for all threads.
    std::vector<double> average_utility(const TextIndex& all, const Texts& rows,
                                        const double* mass, const Workers& workers) const {
        std::vector<Buffer<double>> parts((refs.count + lanes - 1) / lanes,
                                          Buffer<double>(rows.size()));
        each_average_score(all, rows, workers, [&](std::size_t h, std::size_t g, double score) {
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

    // Repeats rows and columns of a matrix of distinct texts for texts that occur again.
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

// (E,) the partial statistics of weighted references for the hypotheses.
template <class FrontEnd>
std::vector<double> partial_statistics(IndexedTexts<FrontEnd>& hyps,
                                       const IndexedTexts<FrontEnd>& refs, Texts members,
                                       const double* weights) {
    const Automata& automata = hyps.automata();
    // symbols are numbered in order of appearance: those of the hypotheses come first and are the
    // same for any references
    Corpus both = hyps.corpus();
    both.append(refs.corpus());
    for (std::int64_t& member : members) member += std::int64_t(hyps.size());
    const std::vector<Kind> kinds = hyps.front_end().kinds(both);
    std::vector<double> result(partial_size(automata));
    double* part = result.data();
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        count_ngrams(automata[k], kinds[k].symbols, members, weights, part);
        part += automata[k].partial_size();
    }
    return result;
}

// (H,) scores against the average of references whose weights sum to 1, from their partial
// statistics.
template <class FrontEnd, class Metric>
std::vector<double> finalize(IndexedTexts<FrontEnd>& texts, const Texts& hyps,
                             const double* partial, const Metric& metric) {
    const std::vector<Kind> kinds = texts.front_end().kinds(texts.corpus());
    std::vector<MatchCounter> counters;
    std::size_t orders = 0;
    for (const Automaton& automaton : texts.automata()) {
        counters.emplace_back(automaton, partial);
        partial += automaton.partial_size();
        orders += automaton.order();
    }
    std::vector<double> result;
    std::vector<Statistics> statistics(orders);
    for (std::int64_t hyp : hyps) {
        Statistics* own = statistics.data();
        for (std::size_t k = 0; k < kinds.size(); ++k)
            own = counters[k].statistics(kinds[k].symbols[hyp], own);
        result.push_back(metric.score(statistics));
    }
    return result;
}

}  // namespace minrisk
