"""Extraction problems with gold JSON: letters with orders, written by rules from a seed.

    python experiments/compose/problems.py 30 > letters.jsonl
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

_NAMES = ("Ada Brook", "Tom Reyes", "Lena Vogt", "Omar Haddad", "Mia Sato", "Jan Kowal",
          "Ines Costa")
_CITIES = ("Lyon", "Porto", "Graz", "Leeds", "Turin", "Bergen", "Ghent")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_GOODS = ("desk lamp", "office chair", "notebook", "stapler", "water bottle", "wall clock",
          "keyboard", "extension cord", "paper tray", "whiteboard")
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_INSTRUCTION = (
    "Extract the order from the letter as one line of JSON with the fields customer, city, day "
    "(of delivery), express (true or false), phone (null if there is none) and items (name in the "
    "singular, quantity, price of one). Answer with the JSON only.")
_EXAMPLE = (
    "Hello, this is Eva Lind from Oslo (555-0199). Please bring two mugs at 3.5 euros each and a "
    "fan for 20 euros on Monday. There is no hurry.",
    {"customer": "Eva Lind", "city": "Oslo", "day": "Monday", "express": False,
     "phone": "555-0199", "items": [{"name": "mug", "quantity": 2, "price": 3.5},
                                    {"name": "fan", "quantity": 1, "price": 20}]})


def problems(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Letters as chats, each with its gold answer."""
    rng = random.Random(seed)
    return [_problem(rng, index) for index in range(count)]


def _problem(rng: random.Random, index: int) -> dict[str, Any]:
    customer, city, day = rng.choice(_NAMES), rng.choice(_CITIES), rng.choice(_DAYS)
    other_city, other_day = (rng.choice([one for one in among if one != taken]) for among, taken
                             in ((_CITIES, city), (_DAYS, day)))
    express = rng.random() < 0.5
    phone = f"555-01{rng.randrange(10, 99)}" if rng.random() < 0.6 else None
    items = [{"name": name, "quantity": rng.randrange(1, 10),
              "price": rng.choice((4, 7.5, 12, 18.9, 25, 39.5))}
             for name in rng.sample(_GOODS, rng.randrange(2, 5))]
    wanted = ", ".join(_wish(rng, item) for item in items[:-1]) + " and " + _wish(rng, items[-1])
    sentences = [
        rng.choice((f"We moved from {other_city} to {city} last spring.",
                    f"I am writing from {city}; my colleague in {other_city} sends her regards.")),
        f"I would like to order {wanted}.",
        rng.choice((f"On {other_day} nobody is here, so {day} would be best for the delivery.",
                    f"Please deliver on {day}, not on {other_day} as last time.")),
        "It is urgent, so express delivery, please." if express else
        "Normal delivery is fine; express is too expensive for us.",
        f"You can call me at {phone}." if phone else "Please write; I cannot take calls.",
        f"Kind regards, {customer}"]
    gold = {"customer": customer, "city": city, "day": day, "express": express, "phone": phone,
            "items": items}
    return {"id": index, "task": "letters", "messages": _chat(" ".join(sentences)),
            "gold": json.dumps(gold)}


def _wish(rng: random.Random, item: dict[str, Any]) -> str:
    count = item["quantity"]
    number = "a" if count == 1 else rng.choice((str(count), _WORDS[count]))
    each = "" if count == 1 else rng.choice((" each", " apiece"))
    return f"{number} {item['name']}{'s' * (count > 1)} for {item['price']} euros{each}"


def _chat(letter: str) -> list[dict[str, str]]:
    example, answer = _EXAMPLE
    return [{"role": "system", "content": _INSTRUCTION}, {"role": "user", "content": example},
            {"role": "assistant", "content": json.dumps(answer)},
            {"role": "user", "content": letter}]


if __name__ == "__main__":
    for problem in problems(int(sys.argv[1])):
        print(json.dumps(problem))
