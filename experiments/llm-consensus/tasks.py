"""The tasks: how the model is asked, which answers agree in a vote, and which metrics judge."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import minrisk

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Task:
    """An instruction with examples, which a model this small needs."""

    name: str
    instruction: str
    examples: tuple[tuple[str, str], ...]
    max_tokens: int
    judges: tuple[Any, ...]  # metrics, against our own reference
    vote: minrisk.ExactMatch | None = None  # where there is an answer

    def messages(self, source: str) -> list[dict[str, str]]:
        """The chat that the model answers."""
        shown = [{"role": role, "content": text} for example in self.examples
                 for role, text in zip(("user", "assistant"), example, strict=True)]
        return [{"role": "system", "content": self.instruction}, *shown,
                {"role": "user", "content": source}]

    def question(self, source: str) -> str:
        """The prompt as a judge reads it."""
        return f"{self.instruction}\n\n{source}"


@dataclass(frozen=True)
class Item:
    """A line of items.jsonl."""

    task: Task
    source: str
    reference: str


_NUMBER = minrisk.ExactMatch(pattern=r"-?\d+", numbers=True)
# without the article and the marks around it
_PHRASE = minrisk.ExactMatch(pattern=r"(?is)^\W*(?:the |an? )?(.*?)\W*$", lowercase=True)
_TASKS = (
    Task("summary", "Summarise the text in one sentence.", (
        ("The market moves to the park this week, because the square gets new paving stones. All "
         "stalls will be there, and the car park beside the park is free of charge until Saturday.",
         "This week the market is in the park, where parking is free until Saturday."),
    ), 40, (minrisk.RougeL(), minrisk.ChrF())),
    Task("extraction", "Answer the question with one or two words of the text.", (
        ("Text: The blue car belongs to Mary, and the black one to Peter.\n"
         "Question: Who owns the black car?", "Peter"),
        ("Text: We flew to Lima in June and to Quito in July.\n"
         "Question: Where did they fly in June?", "Lima"),
        ("Text: The soup was salty, but the cake was sweet.\n"
         "Question: How was the soup?", "salty"),
    ), 24, (_PHRASE,), _PHRASE),
    Task("arithmetic", "Answer the question with a number.", (
        ("What is 3 + 4?", "7"),
        ("A cart has 4 wheels. How many wheels do 2 carts have?", "8"),
        ("What is 50 - 20?", "30"),
    ), 24, (_NUMBER,), _NUMBER),
    Task("translation", "Translate the sentence into French.", (
        ("Good morning, my friend.", "Bonjour, mon ami."),
        ("We are going to the market.", "Nous allons au marché."),
        ("My father has a small car.", "Mon père a une petite voiture."),
    ), 24, (minrisk.ChrF(),)),
)


def read_items(per_task: int) -> list[Item]:
    """The first items of each task, the tasks in turn: a run that is stopped has some of all."""
    lines = (HERE / "items.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    columns = [[Item(task, record["source"], record["reference"]) for record in records
                if record["task"] == task.name][:per_task] for task in _TASKS]
    return [item for row in zip(*columns, strict=True) for item in row]
