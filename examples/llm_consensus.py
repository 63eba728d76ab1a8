"""Self-consistency: ask a language model several times, and keep the answer that most agree on.

Needs `pip install 'minrisk[openai]'`. A real run names the address of vLLM, llama.cpp, OpenAI or
any other server with OpenAI's protocol; a key comes from OPENAI_API_KEY.
"""

from __future__ import annotations

import stand_ins

import minrisk

QUESTIONS = ["What is 17 + 25?", "What is 208 + 64?", "What is 999 + 3?"]


def main() -> None:
    # what is compared are the answers, not the words around them
    vote = minrisk.ExactMatch(pattern=r"answer is (-?\d+)", numbers=True)
    with stand_ins.language_model() as address:
        sampler = minrisk.Endpoint("stand-in", endpoint=address, temperature=0.7,
                                   logprobs=False)
        # a prompt is a chat; a string would be a source that needs an instruction
        chats = [[{"role": "user", "content": question}] for question in QUESTIONS]
        results = minrisk.answer(chats, 16, sampler=sampler, metric=vote, uncertainty=True)
        for question, result in zip(QUESTIONS, results, strict=True):
            votes = ", ".join(f"{answer}: {share:.0%}"
                              for answer, share in result.details["votes"].items())
            print(f"{question}  {result.details['answer']}   votes {votes}")
            if result.ranking.uncertainty.largest < 0.5:
                print("   fewer than half of the samples agree: better ask somebody else")


if __name__ == "__main__":
    main()
