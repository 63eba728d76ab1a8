// sacreBLEU's tokenizers: texts with white space between the tokens.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "text.hpp"

namespace minrisk {

enum class Tokenizer { none, characters, mteval_13a, chinese };

namespace detail {

inline bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
inline bool is_point(char32_t c) { return c == '.' || c == ','; }

// ASCII marks that are tokens wherever they stand: all but ' - . and ,
inline bool is_separate(char32_t c) {
    return is_punctuation(c) && !is_point(c) && c != '\'' && c != '-';
}

// What sacreBLEU takes for Chinese. It writes code points of five digits as strings of two
// characters, which is why everything from U+2001 to U+2A6D belongs to it, and no U+20000.
inline bool is_chinese(char32_t c) {
    static constexpr std::pair<char32_t, char32_t> ranges[] = {
        {0x2001, 0x2a6d}, {0x2e80, 0x2fdf}, {0x2ff0, 0x303f}, {0x3100, 0x312f}, {0x31a0, 0x31ef},
        {0x3200, 0x4db5}, {0x4e00, 0x9fbb}, {0xf900, 0xfa2d}, {0xfa30, 0xfa6a}, {0xfa70, 0xfad9},
        {0xfe10, 0xfe1f}, {0xfe30, 0xfe4f}, {0xff00, 0xffef}};
    if (c < std::begin(ranges)->first) return false;
    return std::any_of(std::begin(ranges), std::end(ranges),
                       [c](auto range) { return c >= range.first && c <= range.second; });
}

// A text that is rewritten from left to right, time and again.
class Draft {
public:
    // Between `margin` spaces.
    void start(std::u32string_view text, std::size_t margin) {
        text_.assign(margin, ' ').append(text).append(margin, ' ');
    }

    std::u32string_view text() const { return text_; }

    void replace(std::u32string_view old, std::u32string_view by) {
        std::size_t from = 0, at = text_.find(old);
        if (at == text_.npos) return;
        spare_.clear();
        for (; at != text_.npos; from = at + old.size(), at = text_.find(old, from))
            spare_.append(text_, from, at - from).append(by);
        spare_.append(text_, from);
        text_.swap(spare_);
    }

    // Spaces on both sides of these characters.
    template <class Is>
    void separate(Is is) {
        rewrite(3, [&](std::size_t i, char32_t*& out) {
            const bool found = is(text_[i]);
            if (found) *out++ = ' ';
            *out++ = text_[i];
            if (found) *out++ = ' ';
            return 1;
        });
    }

    // A space between two neighbours, and one on the other side of the mark that is the second
    // (or else the first). No character is part of two pairs.
    template <class First, class Second>
    void split_pairs(First first, Second second, bool second_is_mark) {
        rewrite(2, [&](std::size_t i, char32_t*& out) {
            const bool found = i + 1 < text_.size() && first(text_[i]) && second(text_[i + 1]);
            if (found && !second_is_mark) *out++ = ' ';
            *out++ = text_[i];
            if (!found) return 1;
            *out++ = ' ';
            *out++ = text_[i + 1];
            if (second_is_mark) *out++ = ' ';
            return 2;
        });
    }

private:
    // `step(i, out)` writes up to `growth` characters for each that it reads, and says how many.
    template <class Step>
    void rewrite(int growth, Step step) {
        spare_.resize(text_.size() * growth);
        char32_t* out = spare_.data();
        for (std::size_t i = 0; i < text_.size();) i += step(i, out);
        spare_.resize(out - spare_.data());
        text_.swap(spare_);
    }

    std::u32string text_, spare_;
};

// What 13a and zh have in common: marks of Western languages. Points and commas stay within
// numbers, a dash parts from the digit before it.
inline void split_marks(Draft& draft) {
    const auto no_digit = [](char32_t c) { return !is_digit(c); };
    draft.separate(is_separate);
    draft.split_pairs(no_digit, is_point, true);
    draft.split_pairs(is_point, no_digit, false);
    draft.split_pairs(is_digit, [](char32_t c) { return c == '-'; }, true);
}

inline void tokenize_13a(std::u32string_view text, Draft& draft) {
    draft.start(text, 1);
    if (text.find_first_of(U"<\n&") != text.npos) {
        draft.replace(U"<skipped>", U"");
        draft.replace(U"-\n", U"");
        draft.replace(U"\n", U" ");
        draft.replace(U"&quot;", U"\"");
        draft.replace(U"&amp;", U"&");
        draft.replace(U"&lt;", U"<");
        draft.replace(U"&gt;", U">");
    }
    split_marks(draft);
}

inline void tokenize_chinese(std::u32string_view text, Draft& draft) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    draft.start(text, 0);
    draft.separate(is_chinese);
    split_marks(draft);
}

inline void tokenize(std::u32string_view text, Tokenizer tokenizer, Draft& draft) {
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    switch (tokenizer) {
        case Tokenizer::none: return draft.start(text, 0);
        case Tokenizer::characters:
            draft.start(text, 0);
            return draft.separate([](char32_t) { return true; });
        case Tokenizer::mteval_13a: return tokenize_13a(text, draft);
        case Tokenizer::chinese: return tokenize_chinese(text, draft);
    }
}

}  // namespace detail

inline Corpus tokenized(const Corpus& corpus, Tokenizer tokenizer) {
    Corpus result;
    detail::Draft draft;
    for (std::size_t t = 0; t < corpus.size(); ++t) {
        detail::tokenize(corpus[t], tokenizer, draft);
        result.characters.insert(result.characters.end(), draft.text().begin(),
                                 draft.text().end());
        result.close_text();
    }
    return result;
}

inline Symbols token_symbols(const Corpus& corpus, Tokenizer tokenizer) {
    if (tokenizer == Tokenizer::characters) return character_symbols(corpus, false);
    return word_symbols(tokenized(corpus, tokenizer),
                        [](auto text, auto use) { each_word(text, use); });
}

}  // namespace minrisk
