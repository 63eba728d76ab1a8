// Input of the kernels of sampling. No standard library here, as in `kernel.hpp`.
#pragma once

#include <cstddef>
#include <cstdint>
#if defined(MINRISK_X86)
#include <immintrin.h>
#endif

namespace minrisk {

constexpr int logits_block = 128;  // logits of which the largest is remembered

// Rows of logits (R, vocabulary); `Value` is float, or bfloat16 as 16 bits.
template <class Value>
struct LogitsProblem {
    const Value* logits;
    std::int64_t vocabulary;
    float* finite;  // (R, 2) the sum of the logits that are not -inf, and their number
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

// Each function runs one row, with `buffer` for its own use: `attention_floats`, or one float for
// each block of logits.
template <class Value>
struct SamplingKernels {
    float (*total)(const LogitsProblem<Value>&, std::int64_t row, float* tops);
    std::int64_t (*tokens_above)(const LogitsProblem<Value>&, std::int64_t row, const float* tops,
                                 float least, std::int64_t room, std::int64_t* tokens,
                                 float* logits);
    void (*self_attention)(const SelfAttention<Value>&, std::int64_t row, float* buffer);
    void (*cross_attention)(const CrossAttention<Value>&, std::int64_t row, float* buffer);
};

constexpr int int8_panel = 32;  // outputs whose weights are adjacent

// A linear layer of rows (R, inputs). Its weights are padded with 0 and stand in panels: (panels,
// depth / 4, int8_panel, 4) for outputs (panels, int8_panel) and inputs (depth / 4, 4).
struct Int8Layer {
    const float* rows;
    std::int64_t inputs, depth, outputs;
    const std::int8_t* weights;
    const std::int32_t* offsets;  // (panels * int8_panel) the sum of each output's weights * -128
    const float *scales, *bias;   // (outputs,)
    float* out;                   // (R, outputs)
};

struct Int8Part {
    std::int64_t first_row, end_row, first_panel, end_panel;
};

constexpr int int8_rows = 192;  // at a time, whose bytes stay in the cache of the second level
constexpr int int8_tile = 12;   // rows of a tile at most

constexpr std::size_t int8_buffer_bytes(std::size_t rows, std::size_t depth) {
    return int8_rows * sizeof(float) + (rows + int8_tile) * depth * sizeof(std::int16_t);
}

// One instruction set.
struct Sampling {
    void (*int8)(const Int8Layer&, Int8Part, void* buffer);
    SamplingKernels<float> single;
    SamplingKernels<std::uint16_t> half;  // bfloat16
};

extern const Sampling portable_sampling;
#if defined(MINRISK_X86)
extern const Sampling avx2_sampling;
extern const Sampling avx512_sampling;
#endif

}  // namespace minrisk
