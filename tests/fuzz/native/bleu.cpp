// BLEU of texts and of averages, with every tokenizer and smoothing.
#include "input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using minrisk::Smoothing;
    constexpr double values[] = {0, 0.1, 0.5, 1, 3, 1000};
    fuzz::Input input(data, size);
    minrisk::BleuFrontEnd front_end;
    front_end.order = 1 + input.option(7);
    front_end.tokenizer = minrisk::Tokenizer(input.option(4));
    const minrisk::Bleu metric{Smoothing(input.option(4)), values[input.option(6)],
                               input.option(2) == 1};
    fuzz::check_metric(input, front_end, metric);
    return 0;
}
