// Words, words with a mark split off, and sacreBLEU's tokens.
#include "input.hpp"

using namespace minrisk;

namespace {

template <class Each>
reference::Strings strings(std::u32string_view text, Each each) {
    reference::Strings result;
    each(text, [&](std::u32string_view word) { result.emplace_back(word); });
    return result;
}

// Symbols are numbered from 1 in order of first appearance.
void check_symbols(const Symbols& symbols, const std::vector<reference::Strings>& texts) {
    std::map<reference::Text, std::uint32_t> numbers;
    fuzz::require(symbols.texts() == texts.size(), "symbols of each text");
    for (std::size_t t = 0; t < texts.size(); ++t) {
        Numbers expected;
        for (const auto& token : texts[t])
            expected.push_back(
                numbers.try_emplace(token, std::uint32_t(numbers.size() + 1)).first->second);
        fuzz::require(std::ranges::equal(symbols[t], expected), "numbers of symbols");
    }
    fuzz::require(symbols.alphabet == numbers.size() + 1, "size of the alphabet");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    input.set_hash_secret();
    const reference::Strings texts = input.texts(6);
    const Corpus corpus = checks::corpus_of(texts);
    for (const auto& text : texts) {
        fuzz::require(strings(text, [](auto t, auto use) { each_word(t, use); }) ==
                          reference::split(text), "words");
        fuzz::require(strings(text, [](auto t, auto use) { each_word_and_mark(t, use); }) ==
                          reference::words_and_marks(text), "words and marks");
    }
    for (Tokenizer tokenizer : {Tokenizer::none, Tokenizer::characters, Tokenizer::mteval_13a,
                                Tokenizer::chinese}) {
        std::vector<reference::Strings> expected;
        for (const auto& text : texts) expected.push_back(reference::tokens(text, tokenizer));
        check_symbols(token_symbols(corpus, tokenizer), expected);
        const Corpus found = tokenized(corpus, tokenizer);
        for (std::size_t t = 0; t < texts.size(); ++t)
            fuzz::require(reference::split(reference::Text(found[t])) == expected[t], "tokens");
    }
    return 0;
}
