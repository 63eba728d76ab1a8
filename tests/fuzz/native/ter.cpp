// Edits of TER between two sequences of words, each of them a byte; 0xff stands between the two.
#include "../../../cpp/ter.hpp"
#include "input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    constexpr std::size_t most = 80;  // words: more than any limit of TER, and still fast
    fuzz::Input input(data, size);
    const int alphabet = 1 + input.option(64);
    reference::Words texts[2];
    int side = 0;
    for (const unsigned char byte : input.bytes()) {
        if (byte == 0xff && side == 0) side = 1;
        else if (texts[side].size() < most) texts[side].push_back(byte % alphabet);
    }
    static minrisk::TerCounter counter;  // used again, as between pairs
    const auto& [hyp, ref] = texts;
    fuzz::require(counter.edits(hyp, ref) == reference::ter_edits(hyp, ref), "edits of TER");
    fuzz::require(counter.edits(hyp, hyp) == 0, "a text needs no edits to be itself");
    return 0;
}
