// Texts as sequences of numbered symbols: characters, or words with one punctuation mark split off.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hash.hpp"
#include "memory.hpp"

namespace minrisk {

using Numbers = Buffer<std::uint32_t>;

// The characters of a batch of texts in one buffer.
struct Corpus {
    Buffer<char32_t> characters;
    std::vector<std::size_t> starts{0};  // (texts + 1)

    std::size_t size() const { return starts.size() - 1; }

    std::u32string_view operator[](std::size_t text) const {
        return {characters.data() + starts[text], starts[text + 1] - starts[text]};
    }

    void close_text() { starts.push_back(characters.size()); }

    void append(const Corpus& other) {
        const std::size_t shift = characters.size();
        characters.insert(characters.end(), other.characters.begin(), other.characters.end());
        for (std::size_t i = 1; i < other.starts.size(); ++i)
            starts.push_back(other.starts[i] + shift);
    }
};

// The symbols of each text, numbered from 1; 0 is the symbol after the end of a text.
struct Symbols {
    Numbers values;
    std::vector<std::size_t> starts{0};  // (texts + 1)
    std::uint32_t alphabet = 1;          // symbols are below this

    std::size_t texts() const { return starts.size() - 1; }
    std::size_t length(std::size_t text) const { return starts[text + 1] - starts[text]; }

    std::span<const std::uint32_t> operator[](std::size_t text) const {
        return std::span(values).subspan(starts[text], length(text));
    }

    // Keeps only these texts, which must be in ascending order.
    void select(const Numbers& texts) {
        std::vector<std::size_t> selected{0};
        for (std::uint32_t text : texts) {
            const auto from = values.begin() + starts[text];
            std::copy(from, from + length(text), values.begin() + selected.back());
            selected.push_back(selected.back() + length(text));
        }
        starts = std::move(selected);
        values.resize(starts.back());
    }
};

// White space as in Python's str.split().
inline bool is_space(char32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

inline bool is_punctuation(char32_t c) {  // ASCII only, as in chrF++
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

inline Symbols character_symbols(const Corpus& corpus, bool whitespace) {
    constexpr std::uint32_t skipped = ~0u;
    const auto largest = std::max_element(corpus.characters.begin(), corpus.characters.end());
    Numbers table(largest == corpus.characters.end() ? 0 : std::size_t(*largest) + 1);
    Symbols result;
    result.values.resize(corpus.characters.size());
    std::size_t size = 0;
    for (std::size_t t = 0; t < corpus.size(); ++t) {
        for (char32_t c : corpus[t]) {
            std::uint32_t& id = table[c];
            if (id == 0) id = !whitespace && is_space(c) ? skipped : result.alphabet++;
            result.values[size] = id;
            size += id != skipped;
        }
        result.starts.push_back(size);
    }
    result.values.resize(size);
    return result;
}

// Calls use(word) for each word between white space.
template <class Use>
void each_word(std::u32string_view text, Use&& use) {
    for (std::size_t i = 0; i < text.size();) {
        while (i < text.size() && is_space(text[i])) ++i;
        std::size_t end = i;
        while (end < text.size() && !is_space(text[end])) ++end;
        if (end > i) use(text.substr(i, end - i));
        i = end;
    }
}

// The same with one punctuation mark split off each word: the last character, or else the first.
template <class Use>
void each_word_and_mark(std::u32string_view text, Use&& use) {
    each_word(text, [&](std::u32string_view word) {
        if (word.size() > 1 && is_punctuation(word.back())) {
            use(word.substr(0, word.size() - 1));
            use(word.substr(word.size() - 1));
        } else if (word.size() > 1 && is_punctuation(word.front())) {
            use(word.substr(0, 1));
            use(word.substr(1));
        } else {
            use(word);
        }
    });
}

// `each(text, use)` calls use(word) for the words of a text.
template <class Each>
Symbols word_symbols(const Corpus& corpus, Each&& each) {
    std::unordered_map<std::u32string_view, std::uint32_t, WordHash> ids;
    Symbols result;
    for (std::size_t t = 0; t < corpus.size(); ++t) {
        each(corpus[t], [&](std::u32string_view word) {
            const auto [found, is_new] = ids.try_emplace(word, result.alphabet);
            result.alphabet += is_new;
            result.values.push_back(found->second);
        });
        result.starts.push_back(result.values.size());
    }
    return result;
}

}  // namespace minrisk
