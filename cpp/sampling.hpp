// Input of the kernels of sampling. No standard library here, as in `kernel.hpp`.
#pragma once

#include <cstdint>

namespace minrisk {

// Rows of logits (R, vocabulary); `Value` is float, or bfloat16 as 16 bits.
template <class Value>
struct LikelyProblem {
    const Value* logits;
    std::int64_t vocabulary;
    float least;           // the least log-probability of a likely token
    std::int64_t width;    // tokens of a row at most
    std::int64_t* tokens;  // (R, width), the likely ones; padded with 0
    float* scores;         // (R, width) their log-probabilities; padded with -inf
    float* totals;         // (R,) logarithms of the sums of exponentials
    float* finite;         // (R, 2) the sum of the logits that are not -inf, and their number
};

// Attention of rows to the tokens of their own prefixes.
template <class Value>
struct SelfAttention {
    const Value *queries, *keys, *values;  // (R, heads, size) of the new tokens
    Value *cached_keys, *cached_values;    // (slots, heads, size)
    const std::int32_t* paths;             // (R, tokens) slots; the last one is for the new token
    std::int64_t tokens, heads, size;
    float scale;
    Value* out;  // (R, heads, size)
};

// Attention of rows to their sources.
template <class Value>
struct CrossAttention {
    const Value* queries;                // (R, heads, size)
    const Value *keys, *values;          // (sources, heads, capacity, size)
    const std::int64_t *sources, *lengths;  // (R,) and (sources,)
    std::int64_t capacity, heads, size;
    float scale;
    Value* out;  // (R, heads, size)
};

constexpr int spare_lanes = 16;  // after the weights of the tokens of a head

constexpr std::int64_t attention_floats(std::int64_t heads, std::int64_t tokens, std::int64_t size) {
    return heads * (tokens + spare_lanes + size + 1);
}

// Each function runs one row, with `buffer` for its own use: one float for each 64 logits, or
// `attention_floats`.
template <class Value>
struct SamplingKernels {
    void (*likely)(const LikelyProblem<Value>&, std::int64_t row, float* buffer);
    void (*self_attention)(const SelfAttention<Value>&, std::int64_t row, float* buffer);
    void (*cross_attention)(const CrossAttention<Value>&, std::int64_t row, float* buffer);
};

// Rows of activations (R, size) as unsigned bytes: `zero` is 0, and the largest is `most` away.
struct QuantizedRows {
    const float* values;
    std::int64_t size;
    std::uint8_t* bytes;  // (R, size)
    float* largest;       // (R,) the largest absolute value; NaN if one is not finite
};

// Products of quantized rows (R, size), which are scaled row by row, plus a bias.
struct ScaledProducts {
    float* products;
    std::int64_t size;
    const float *scales, *bias;  // (R,) and (size,)
};

// One instruction set.
struct Sampling {
    void (*quantize)(const QuantizedRows&, std::int64_t row);
    void (*scale)(const ScaledProducts&, std::int64_t row);
    SamplingKernels<float> single;
    SamplingKernels<std::uint16_t> half;  // bfloat16
};

extern const Sampling portable_sampling;
#if defined(MINRISK_X86)
extern const Sampling avx2_sampling;
extern const Sampling avx512_sampling;
#endif

}  // namespace minrisk
