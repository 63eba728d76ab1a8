// Texts as columns: the columns that two texts share are the n-grams that they share.
#include <set>

#include "input.hpp"

using namespace minrisk;

namespace {

Symbols symbols_of(const Corpus& corpus, int kind) {
    if (kind < 2) return character_symbols(corpus, kind == 1);
    return word_symbols(corpus, [](auto text, auto use) { each_word_and_mark(text, use); });
}

reference::Strings tokens_of(const reference::Text& text, int kind) {
    return kind < 2 ? reference::characters(text, kind == 1) : reference::words_and_marks(text);
}

void check_order(const Order& order, const std::vector<reference::Counts>& texts) {
    std::set<reference::Text> distinct;
    std::vector<std::set<std::uint32_t>> columns;
    for (std::size_t t = 0; t < texts.size(); ++t) {
        const auto own = order.columns.begin() + std::ptrdiff_t(order.starts[t]);
        columns.emplace_back(own, own + std::ptrdiff_t(order.total(t)));
        fuzz::require(columns.back().size() == order.total(t), "no column twice in a text");
        fuzz::require(double(order.total(t)) == reference::total(texts[t]), "n-grams of a text");
        for (const auto& entry : texts[t]) distinct.insert(entry.first);
    }
    fuzz::require(order.ngrams == distinct.size(), "distinct n-grams");
    for (std::size_t a = 0; a < texts.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) {
            const auto shared = std::ranges::count_if(
                columns[a], [&](std::uint32_t column) { return columns[b].contains(column); });
            fuzz::require(double(shared) == reference::match(texts[a], texts[b]), "shared columns");
        }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    input.set_hash_secret();
    const int kind = input.option(3), order = 1 + input.option(14);
    const Workers workers{input.option(8) == 1 ? 3 : 1};
    const reference::Strings texts = input.texts(8);
    std::vector<Order> orders;
    index_ngrams(symbols_of(checks::corpus_of(texts), kind), order, workers, orders);
    reference::Numbering numbering;
    std::vector<std::vector<reference::Counts>> counts(order);  // (orders, texts)
    for (const auto& text : texts) {
        auto own = numbering.counts(tokens_of(text, kind), order);
        for (int k = 0; k < order; ++k) counts[k].push_back(std::move(own[k]));
    }
    for (int k = 0; k < order; ++k) check_order(orders[k], counts[k]);
    return 0;
}
