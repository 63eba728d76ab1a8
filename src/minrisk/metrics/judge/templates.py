"""The prompts of a judge, unless others are given."""

from __future__ import annotations

from collections.abc import Sequence

RUBRIC = ("How well does the response do what the prompt asks? Judge whether it is right, "
          "complete, to the point and clear.")

# what differs between the pairs of a segment comes last, for servers that cache prefixes
_TASK = """\
{rubric} Give the response a score from {lowest} (worst) to {highest} (best). Answer with the \
number alone, without a word before or after it.

### Prompt
{source}

"""

PAIR = f"""\
Judge a response to a prompt by comparing it with a reference response, which would get \
{{highest}}. {_TASK}### Reference response
{{reference}}

### Response to judge
{{hypothesis}}

### Score"""

QUALITY = f"""\
Judge a response to a prompt. {_TASK}### Response to judge
{{hypothesis}}

### Score"""

# the words of Chen et al. 2023, with a shorter answer
CHOICE = """\
I have generated the following {count} responses to the prompt: {source}

{candidates}

Evaluate these responses. Select the most consistent response based on majority consensus. Answer \
with "Response X" alone, where X is its number."""


def listed(texts: Sequence[str], counts: Sequence[int]) -> str:
    """The candidates as a choice shows them, numbered from 1."""
    titles = (f"Response {number}" + (f" (given {count} times)" if count > 1 else "")
              for number, count in enumerate(counts, 1))
    return "\n\n".join(f"{title}:\n{text}" for title, text in zip(titles, texts, strict=True))
