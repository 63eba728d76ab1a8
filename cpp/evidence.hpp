// What references say of given hypotheses, as numbers that add up: references may come in parts,
// of which nothing else needs to be kept.
//
// The n-grams of the hypotheses are the states of an automaton (Aho & Corasick 1975). It reads a
// reference symbol by symbol and is always in the longest of them that ends there; the others that
// end there are its suffixes. So a symbol costs about one look-up whatever the orders, and n-grams
// that no hypothesis has take no memory.
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

// The n-grams of up to `order` symbols; state 0 is none of them.
class Automaton {
public:
    Automaton(const Symbols& symbols, int order) : order_(order), children_(symbols.values.size()) {
        states_.push_back({});
        for (std::size_t t = 0; t < symbols.texts(); ++t) add(symbols[t]);
        // a suffix is found through its parent's, which has a smaller number
        for (State& state : states_)
            if (state.length > 1)
                state.suffix = child(states_[state.parent].suffix, state.symbol);
        longest_first_.resize(states_.size() - 1);
        std::iota(longest_first_.begin(), longest_first_.end(), 1u);
        std::ranges::stable_sort(longest_first_, std::ranges::greater{},
                                 [this](std::uint32_t state) { return states_[state].length; });
    }

    int order() const { return order_; }
    std::size_t size() const { return states_.size(); }
    std::size_t evidence_size() const { return order_ + size(); }
    std::uint32_t length(std::uint32_t state) const { return states_[state].length; }
    std::uint32_t suffix(std::uint32_t state) const { return states_[state].suffix; }

    // Calls use(state) after each symbol: the longest n-gram that ends there.
    template <class Use>
    void read(std::span<const std::uint32_t> text, Use&& use) const {
        std::uint32_t state = 0;
        for (std::uint32_t symbol : text) use(state = after(state, symbol));
    }

    // From counts of the longest n-grams, those of all: where one ends, so do its suffixes.
    void add_to_suffixes(double* counts) const {
        for (std::uint32_t state : longest_first_) counts[suffix(state)] += counts[state];
        counts[0] = 0;
    }

private:
    struct State {
        std::uint32_t parent = 0, symbol = 0, suffix = 0, length = 0;
    };

    void add(std::span<const std::uint32_t> text) {
        for (std::size_t start = 0; start < text.size(); ++start) {
            std::uint32_t parent = 0;
            for (std::uint32_t symbol : text.subspan(start, std::min<std::size_t>(
                                                                order_, text.size() - start))) {
                const std::uint32_t state = children_(key(parent, symbol)) + 1;
                if (state == states_.size())
                    states_.push_back({parent, symbol, 0, states_[parent].length + 1});
                parent = state;
            }
        }
    }

    std::uint32_t after(std::uint32_t state, std::uint32_t symbol) const {
        if (length(state) == std::uint32_t(order_)) state = suffix(state);
        for (;; state = suffix(state)) {
            const std::uint32_t next = child(state, symbol);
            if (next != 0 || state == 0) return next;
        }
    }

    std::uint32_t child(std::uint32_t state, std::uint32_t symbol) const {
        return children_.find(key(state, symbol));
    }

    static std::uint64_t key(std::uint32_t parent, std::uint32_t symbol) {
        return std::uint64_t(parent) << 32 | symbol;
    }

    int order_;
    Intern children_;
    std::vector<State> states_;
    Numbers longest_first_;
};

using Automata = std::vector<Automaton>;  // one for each kind of symbol

inline std::size_t evidence_size(const Automata& automata) {
    return std::accumulate(automata.begin(), automata.end(), std::size_t{0},
                           [](std::size_t sum, const Automaton& a) { return sum + a.evidence_size(); });
}

// What weighted texts add to an evidence: their n-grams of each length, then how often each state.
inline void gather(const Automaton& automaton, const Symbols& symbols, const Texts& texts,
                   const double* weights, double* evidence) {
    double *totals = evidence, *counts = evidence + automaton.order();
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const double weight = weights[i];
        const auto text = symbols[texts[i]];
        for (std::size_t n = 1; n <= std::min<std::size_t>(automaton.order(), text.size()); ++n)
            totals[n - 1] += weight * double(text.size() - n + 1);
        automaton.read(text, [&](std::uint32_t state) { counts[state] += weight; });
    }
    automaton.add_to_suffixes(counts);
}

// What an evidence of references that weigh 1 in all makes of the hypotheses. Matches are as in
// aggregate.hpp: the t-th occurrence of an n-gram counts as its average count less t, clipped.
class Verdict {
public:
    Verdict(const Automaton& automaton, const double* evidence)
        : automaton_(automaton), totals_(evidence), counts_(evidence + automaton.order()),
          seen_(automaton.size()) {}

    // Fills the statistics of each order, and returns where those of the next kind begin.
    Statistics* judge(std::span<const std::uint32_t> text, Statistics* orders) {
        for (std::size_t n = 1; n <= std::size_t(automaton_.order()); ++n)
            orders[n - 1] = {n <= text.size() ? double(text.size() - n + 1) : 0.0, totals_[n - 1], 0};
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
        automaton_.read(text, [&](std::uint32_t state) {
            for (; state != 0; state = automaton_.suffix(state)) use(state);
        });
    }

    const Automaton& automaton_;
    const double *totals_, *counts_;
    Numbers seen_;  // (states) occurrences in the text so far
};

}  // namespace minrisk
