// chrF and chrF++ of texts and of averages.
#include "input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    minrisk::ChrfFrontEnd front_end;
    front_end.order = input.option(10);
    front_end.word_order = input.option(4);
    front_end.whitespace = input.option(2) == 1;
    if (front_end.order + front_end.word_order == 0) front_end.order = 6;
    const double beta = 0.5 * (1 + input.option(8));
    const bool smoothed = input.option(2) == 1;
    fuzz::check_metric(input, front_end,
                       minrisk::Chrf{std::size_t(front_end.order), beta * beta, smoothed});
    return 0;
}
