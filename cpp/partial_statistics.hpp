// Statistics of references that add up: references may be processed in parts, and only the sum of
// their statistics is needed to score the hypotheses against the average of all. These are a
// metric's `partial_statistics` and `finalize` in Python.
//
// The n-grams of the hypotheses are the states of an automaton (Aho & Corasick 1975). It reads a
// reference symbol by symbol; its state is the longest of these n-grams that ends at the symbol,
// and the shorter ones that end there are its suffixes. So a symbol costs about one lookup, however
// many orders there are, and n-grams that no hypothesis contains take no memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "aggregate.hpp"
#include "intern.hpp"
#include "text.hpp"

namespace minrisk {

// The states are the n-grams of up to `order` symbols; state 0 is the empty one.
class Automaton {
public:
    Automaton(const Symbols& symbols, int order) : order_(order) {
        for (std::size_t t = 0; t < symbols.texts(); ++t) add(symbols[t]);
        longest_first_.resize(size() - 1);
        std::iota(longest_first_.begin(), longest_first_.end(), 1u);
        std::ranges::stable_sort(longest_first_, std::ranges::greater{},
                                 [this](std::uint32_t state) { return length_[state]; });
    }

    int order() const { return order_; }
    std::size_t size() const { return length_.size(); }
    std::size_t partial_size() const { return order_ + size(); }
    std::uint32_t length(std::uint32_t state) const { return length_[state]; }
    std::uint32_t suffix(std::uint32_t state) const { return suffix_[state]; }

    // The state after reading a symbol in this state.
    std::uint32_t after(std::uint32_t state, std::uint32_t symbol) const {
        for (state = extensible_[state];; state = suffix_[state]) {
            const std::uint32_t next = child(state, symbol);
            if (next != 0 || state == 0) return next;
        }
    }

    // Turns counts of the longest n-gram at each symbol into counts of all n-grams: where one ends,
    // so do its suffixes.
    void add_to_suffixes(double* counts) const {
        for (std::uint32_t state : longest_first_) counts[suffix(state)] += counts[state];
        counts[0] = 0;
    }

private:
    void add(std::span<const std::uint32_t> text) {
        std::uint32_t longest = 0;  // n-gram that ends at the current symbol
        for (std::uint32_t symbol : text) longest = add_after(extensible_[longest], symbol);
    }

    // Adds the n-gram of a state and one more symbol, after the suffixes of that n-gram.
    std::uint32_t add_after(std::uint32_t state, std::uint32_t symbol) {
        if (const std::uint32_t known = child(state, symbol)) return known;
        const std::uint32_t suffix = state == 0 ? 0 : add_after(suffix_[state], symbol);
        const std::uint32_t added = children_(key(state, symbol)) + 1;
        length_.push_back(length_[state] + 1);
        suffix_.push_back(suffix);
        extensible_.push_back(length_[added] < std::uint32_t(order_) ? added : suffix);
        return added;
    }

    std::uint32_t child(std::uint32_t state, std::uint32_t symbol) const {
        return children_.find(key(state, symbol));
    }

    static std::uint64_t key(std::uint32_t state, std::uint32_t symbol) {
        return std::uint64_t(state) << 32 | symbol;
    }

    int order_;
    InternTable children_{0};  // grows as needed: a small table stays in the cache
    Numbers length_{0}, suffix_{0};  // (states)
    Numbers extensible_{0};          // (states) itself, or its suffix if it has `order` symbols
    Numbers longest_first_;
};

using Automata = std::vector<Automaton>;  // one for each kind of symbol

inline std::size_t partial_size(const Automata& automata) {
    std::size_t size = 0;
    for (const Automaton& automaton : automata) size += automaton.partial_size();
    return size;
}

namespace detail {

constexpr std::size_t interleaved_texts = 4;  // hides the latency of lookups

// Counts the states that the automaton is in while it reads these texts.
inline void count_states(const Automaton& automaton,
                         const std::vector<std::span<const std::uint32_t>>& texts,
                         const double* weights, double* counts) {
    std::uint32_t state[interleaved_texts]{};
    std::size_t longest = 0;
    for (const auto& text : texts) longest = std::max(longest, text.size());
    for (std::size_t place = 0; place < longest; ++place)
        for (std::size_t i = 0; i < texts.size(); ++i)
            if (place < texts[i].size())
                counts[state[i] = automaton.after(state[i], texts[i][place])] += weights[i];
}

}  // namespace detail

// Adds weighted texts to partial statistics: the number of n-grams of each order, then the count of
// each state.
inline void count_ngrams(const Automaton& automaton, const Symbols& symbols, const Texts& texts,
                         const double* weights, double* partial) {
    double *totals = partial, *counts = partial + automaton.order();
    std::vector<std::span<const std::uint32_t>> some;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        some.push_back(symbols[texts[i]]);
        const int length = int(some.back().size());
        for (int n = 1; n <= std::min(automaton.order(), length); ++n)
            totals[n - 1] += weights[i] * double(length - n + 1);
        if (some.size() == detail::interleaved_texts || i + 1 == texts.size()) {
            detail::count_states(automaton, some, weights + i + 1 - some.size(), counts);
            some.clear();
        }
    }
    automaton.add_to_suffixes(counts);
}

// Statistics of hypotheses against the average of references whose weights sum to 1, from their
// partial statistics. Matches are as in aggregate.hpp: the t-th occurrence of an n-gram counts as
// its average count less t, clipped.
class MatchCounter {
public:
    MatchCounter(const Automaton& automaton, const double* partial)
        : automaton_(automaton), totals_(partial), counts_(partial + automaton.order()),
          seen_(automaton.size()) {}

    // Writes the statistics of each order, and returns where those of the next kind begin.
    Statistics* statistics(std::span<const std::uint32_t> text, Statistics* orders) {
        const int length = int(text.size());
        for (int n = 1; n <= automaton_.order(); ++n)
            orders[n - 1] = {double(std::max(0, length - n + 1)), totals_[n - 1], 0.0};
        each_ngram(text, [&](std::uint32_t state) {
            const double left = counts_[state] - seen_[state]++;
            orders[automaton_.length(state) - 1].match += std::clamp(left, 0.0, 1.0);
        });
        each_ngram(text, [&](std::uint32_t state) { seen_[state] = 0; });
        return orders + automaton_.order();
    }

private:
    template <class Use>
    void each_ngram(std::span<const std::uint32_t> text, Use&& use) const {
        std::uint32_t longest = 0;
        for (std::uint32_t symbol : text) {
            longest = automaton_.after(longest, symbol);
            for (auto state = longest; state != 0; state = automaton_.suffix(state)) use(state);
        }
    }

    const Automaton& automaton_;
    const double *totals_, *counts_;
    Numbers seen_;  // (states) occurrences in the text so far
};

}  // namespace minrisk
