// The formulas of the metrics as plainly as they can be written: what the native core is compared
// with. Slow, and independent of the core but for the types of its options.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../../cpp/bleu.hpp"
#include "../../cpp/chrf.hpp"

namespace reference {

using Text = std::u32string;
using Strings = std::vector<Text>;

Strings split(const Text& text);
Strings characters(const Text& text, bool whitespace);
Strings words_and_marks(const Text& text);  // of chrF++
Strings tokens(const Text& text, minrisk::Tokenizer tokenizer);

using Counts = std::map<Text, double>;  // n-grams of numbered tokens

// The n-grams of texts: one mapping for each order of each kind of token.
class Numbering {
public:
    std::vector<Counts> counts(const minrisk::ChrfFrontEnd& front_end, const Text& text);
    std::vector<Counts> counts(const minrisk::BleuFrontEnd& front_end, const Text& text);
    std::vector<Counts> counts(const Strings& tokens, int orders);

private:
    std::map<Text, char32_t> numbers_;
};

std::vector<Counts> average(const std::vector<std::vector<Counts>>& texts,
                            const std::vector<double>& weights);
double total(const Counts& counts);
double match(const Counts& hyp, const Counts& ref);

using Statistics = std::vector<minrisk::Statistics>;  // (orders)

Statistics statistics(const std::vector<Counts>& hyp, const std::vector<Counts>& ref);
double score(const minrisk::Chrf& metric, const Statistics& orders);
double score(const minrisk::Bleu& metric, Statistics orders);

using Words = std::vector<std::int64_t>;

int ter_edits(Words hyp, const Words& ref);

}  // namespace reference
