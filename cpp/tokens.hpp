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
inline bool is_point_or_comma(char32_t c) { return c == '.' || c == ','; }

// ASCII punctuation that is always a token of its own: all but ' - . and ,
inline bool is_standalone_mark(char32_t c) {
    return is_punctuation(c) && !is_point_or_comma(c) && c != '\'' && c != '-';
}

// Chinese characters according to sacreBLEU. It writes code points of five digits as strings of two
// characters, which is why U+2001 to U+2A6D are among them and U+20000 is not.
inline bool is_chinese(char32_t c) {
    static constexpr std::pair<char32_t, char32_t> ranges[] = {
        {0x2001, 0x2a6d}, {0x2e80, 0x2fdf}, {0x2ff0, 0x303f}, {0x3100, 0x312f}, {0x31a0, 0x31ef},
        {0x3200, 0x4db5}, {0x4e00, 0x9fbb}, {0xf900, 0xfa2d}, {0xfa30, 0xfa6a}, {0xfa70, 0xfad9},
        {0xfe10, 0xfe1f}, {0xfe30, 0xfe4f}, {0xff00, 0xffef}};
    if (c < std::begin(ranges)->first) return false;
    return std::any_of(std::begin(ranges), std::end(ranges),
                       [c](auto range) { return c >= range.first && c <= range.second; });
}

// Applies rewriting rules to a text, each from left to right.
class TextRewriter {
public:
    // Sets the text, with `margin` spaces on both sides.
    void start(std::u32string_view text, std::size_t margin) {
        text_.assign(margin, ' ').append(text).append(margin, ' ');
    }

    std::u32string_view text() const { return text_; }

    void replace(std::u32string_view old, std::u32string_view by) {
        std::size_t from = 0, at = text_.find(old);
        if (at == text_.npos) return;
        output_.clear();
        for (; at != text_.npos; from = at + old.size(), at = text_.find(old, from))
            output_.append(text_, from, at - from).append(by);
        output_.append(text_, from);
        text_.swap(output_);
    }

    // Puts spaces on both sides of these characters.
    template <class Is>
    void surround_with_spaces(Is is) {
        rewrite(3, [&](std::size_t i, char32_t*& out) {
            const bool found = is(text_[i]);
            if (found) *out++ = ' ';
            *out++ = text_[i];
            if (found) *out++ = ' ';
            return 1;
        });
    }

    // Puts a space between two neighbouring characters, and one on the other side of the
    // punctuation mark, which is the second or the first of them. Pairs do not overlap.
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
    // `step(i, out)` writes at most `growth` characters for each one that it reads from position i
    // on, and returns the number of characters that it read.
    template <class Step>
    void rewrite(int growth, Step step) {
        output_.resize(text_.size() * growth);
        char32_t* out = output_.data();
        for (std::size_t i = 0; i < text_.size();) i += step(i, out);
        output_.resize(out - output_.data());
        text_.swap(output_);
    }

    std::u32string text_, output_;
};

// The rules for Western punctuation that 13a and zh share. Points and commas inside numbers are not
// split; a dash is split from a digit before it.
inline void split_marks(TextRewriter& rewriter) {
    const auto no_digit = [](char32_t c) { return !is_digit(c); };
    rewriter.surround_with_spaces(is_standalone_mark);
    rewriter.split_pairs(no_digit, is_point_or_comma, true);
    rewriter.split_pairs(is_point_or_comma, no_digit, false);
    rewriter.split_pairs(is_digit, [](char32_t c) { return c == '-'; }, true);
}

inline void tokenize_13a(std::u32string_view text, TextRewriter& rewriter) {
    rewriter.start(text, 1);
    if (text.find_first_of(U"<\n&") != text.npos) {
        rewriter.replace(U"<skipped>", U"");
        rewriter.replace(U"-\n", U"");
        rewriter.replace(U"\n", U" ");
        rewriter.replace(U"&quot;", U"\"");
        rewriter.replace(U"&amp;", U"&");
        rewriter.replace(U"&lt;", U"<");
        rewriter.replace(U"&gt;", U">");
    }
    split_marks(rewriter);
}

inline void tokenize_chinese(std::u32string_view text, TextRewriter& rewriter) {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    rewriter.start(text, 0);
    rewriter.surround_with_spaces(is_chinese);
    split_marks(rewriter);
}

inline void tokenize(std::u32string_view text, Tokenizer tokenizer, TextRewriter& rewriter) {
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    switch (tokenizer) {
        case Tokenizer::none: return rewriter.start(text, 0);
        case Tokenizer::characters:
            rewriter.start(text, 0);
            return rewriter.surround_with_spaces([](char32_t) { return true; });
        case Tokenizer::mteval_13a: return tokenize_13a(text, rewriter);
        case Tokenizer::chinese: return tokenize_chinese(text, rewriter);
    }
}

}  // namespace detail

inline Corpus tokenized(const Corpus& corpus, Tokenizer tokenizer) {
    Corpus result;
    detail::TextRewriter rewriter;
    for (std::size_t t = 0; t < corpus.size(); ++t) {
        detail::tokenize(corpus[t], tokenizer, rewriter);
        result.characters.insert(result.characters.end(), rewriter.text().begin(),
                                 rewriter.text().end());
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
