"""Makes the problems of the experiment, as JSON lines for `minrisk sample`.

    pip install reasoning-gym
    python experiments/llm-consensus/tasks.py problems.jsonl [--problems 75]

Arithmetic and logic are procedural tasks of reasoning-gym; extraction and summaries are made here,
from templates. A line has `id`, `task`, `prompt` and `gold`: an answer, a JSON value, or the facts
of a summary, each with the spellings that count. The same arguments make the same file.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

Fields = dict[str, Any]

_STEPS = "Think step by step, briefly, and put the final answer within \\boxed{}."


class Gym(NamedTuple):
    """A task of reasoning-gym, and how its question becomes a prompt with a gold answer."""

    options: Mapping[str, Any] = MappingProxyType({})
    prompt: Callable[[Fields], str] = lambda item: f"{item['question'].strip()}\n\n{_STEPS}"
    gold: Callable[[Fields], str] = lambda item: item["answer"]


def _knights(item: Fields) -> str:
    said = item["question"].rsplit("(Format your answer", 1)[0].strip()
    names, terms = item["metadata"]["names"], item["metadata"]["knight_knave_terms"]
    return (f"{said}\n\nThink step by step, briefly. Then give what each one is, in the order "
            f"{', '.join(names)}, within \\boxed{{}}: each {terms['knight']} or "
            f"{terms['knave']}, with a comma between them.")


def _knights_gold(item: Fields) -> str:
    terms = item["metadata"]["knight_knave_terms"]
    return ", ".join(terms["knight" if is_knight else "knave"]
                     for is_knight in item["metadata"]["solution"])


GYM = {
    "chain_sum": Gym({"min_terms": 3, "max_terms": 6, "min_digits": 2, "max_digits": 3}),
    "gcd": Gym({"max_value": 400}),
    "gsm_symbolic": Gym(),
    "coin_flip": Gym({"max_trials": 6}),
    "knights_knaves": Gym({"n_people": 2}, _knights, _knights_gold),
    "zebra_puzzles": Gym({"num_people": 3, "num_characteristics": 2}),
}


def gym_problems(number: int, seed: int) -> Iterator[Fields]:
    import reasoning_gym

    for task, found in GYM.items():
        items = reasoning_gym.create_dataset(task, size=number, seed=seed, **found.options)
        for index, item in enumerate(items):
            yield {"id": f"{task}-{index}", "task": task, "prompt": found.prompt(item),
                   "gold": found.gold(item)}


def own_problems(number: int, seed: int) -> Iterator[Fields]:
    for task, make in (("extraction", _extraction), ("summary", _summary)):
        for index in range(number):
            made = make(random.Random(f"{task} {seed} {index}"))
            yield {"id": f"{task}-{index}", "task": task, **made}


_PEOPLE = ("Ana Lopez", "Ben Carter", "Chloe Martin", "David Okafor", "Elif Demir", "Felix Brandt",
           "Grace Kim", "Hugo Silva", "Irene Rossi", "Jonas Weber", "Kofi Mensah", "Lena Novak")
_CITIES = ("Leeds", "Porto", "Graz", "Lyon", "Oslo", "Turin", "Ghent", "Malmö", "Bern",
           "Krakow")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")
_GOODS = ("desk lamp", "notebook", "office chair", "keyboard", "water bottle", "backpack",
          "monitor", "phone case", "coffee mug", "headset")
_SKILLS = ("Python", "welding", "Spanish", "accounting", "first aid", "carpentry", "statistics",
           "photography", "project planning")


def _extraction(rng: random.Random) -> Fields:
    text, keys, gold = rng.choice((_order, _event, _applicant, _flight))(rng)
    return {"prompt": f"{text}\n\nExtract a JSON object with these keys: {keys}. Reply with the "
                      "JSON object only.",
            "gold": json.dumps(gold, ensure_ascii=False)}


def _order(rng: random.Random) -> tuple[str, str, Fields]:
    customer, (first, second) = rng.choice(_PEOPLE), rng.sample(_GOODS, 2)
    number, city, express = rng.randrange(1000, 9999), rng.choice(_CITIES), rng.random() < 0.5
    one, two = rng.randrange(2, 9), rng.randrange(2, 9)
    text = (f"Hello, this is {customer} from {city}. About my order number {number}: I had asked "
            f"for {one} pieces of the {first}, and later added {two} of the {second}. My neighbour "
            f"ordered {one + two} of them, too. "
            + ("I paid extra, so please send it by express." if express else
               "There is no hurry, the ordinary post will do."))
    return text, ('"customer" (full name), "city", "order" (number), "express" (true or false), '
                  '"items" (a list of objects with "name" and "quantity", in the order of the '
                  'text)'), {
        "customer": customer, "city": city, "order": number, "express": express,
        "items": [{"name": first, "quantity": one}, {"name": second, "quantity": two}]}


def _event(rng: random.Random) -> tuple[str, str, Fields]:
    host, *guests = rng.sample(_PEOPLE, 3)
    city, month, day = rng.choice(_CITIES), rng.choice(_MONTHS), rng.randrange(1, 28)
    price, hour = rng.randrange(5, 40), rng.randrange(14, 21)
    text = (f"The evening planned for {month} {day + 1} was moved forward by a day, to {month} "
            f"{day}. {host} will host it in {city}, from {hour}:30 on. The speakers are "
            f"{guests[0]} and {guests[1]}. A ticket costs {price} euros, {price + 3} at the door.")
    return text, ('"host", "city", "date" (an object with "month" as a name and "day" as a '
                  'number), "start" (HH:MM), "speakers" (a list of names), "price" (of a ticket '
                  'bought before, as a number)'), {
        "host": host, "city": city, "date": {"month": month, "day": day}, "start": f"{hour}:30",
        "speakers": guests, "price": price}


def _applicant(rng: random.Random) -> tuple[str, str, Fields]:
    name, skills = rng.choice(_PEOPLE), rng.sample(_SKILLS, 3)
    age, years, city = rng.randrange(22, 60), rng.randrange(2, 15), rng.choice(_CITIES)
    email = f"{name.split()[0].lower()}@mail.example"
    text = (f"I spoke with {name} today, who will turn {age + 1} next month and has lived in "
            f"{city} for {years} years. Strong points are {skills[0]} and {skills[1]}; {skills[2]} "
            f"is missing, but a course is booked. Reach them at {email}.")
    return text, ('"name", "age" (today, a number), "residence" (an object with "city" and '
                  '"years"), "skills" (a list of what the person can do now), "email"'), {
        "name": name, "age": age, "residence": {"city": city, "years": years},
        "skills": skills[:2], "email": email}


def _flight(rng: random.Random) -> tuple[str, str, Fields]:
    start, stop, end = rng.sample(_CITIES, 3)
    number, delay, gate = rng.randrange(100, 999), rng.randrange(10, 55), rng.randrange(1, 30)
    hour = rng.randrange(6, 21)
    text = (f"Passengers of flight XK{number} from {start} to {end} via {stop}: departure was "
            f"planned for {hour}:05 and is delayed by {delay - 5} minutes, at gate B{gate}. The "
            f"gate has changed from B{gate + 2}. Vouchers are given out for meals, not for drinks.")
    return text, ('"flight" (code), "route" (a list of cities in order), "departure" (HH:MM, after '
                  'the delay), "gate", "vouchers" (an object with "meals" and "drinks", each true '
                  'or false)'), {
        "flight": f"XK{number}", "route": [start, stop, end],
        "departure": f"{hour:02}:{delay:02}", "gate": f"B{gate}",
        "vouchers": {"meals": True, "drinks": False}}


_HAPPENINGS = (
    ("a fire in the old mill", ("fire", "burn")), ("a flood in the main street", ("flood",)),
    ("a power cut in the harbour", ("power", "outage", "blackout")),
    ("a burst water pipe under the market", ("pipe",)),
    ("a gas leak at the town hall", ("gas", "leak")))
_CAUSES = (
    ("a forgotten heater", ("heater",)), ("a lightning strike", ("lightning",)),
    ("a digger that hit a cable", ("digger", "cable")), ("a rusty valve", ("valve",)),
    ("a night of frost", ("frost", "froze", "freez")))
_PLANS = (
    ("the school will stay closed until Monday", ("school",)),
    ("the bridge will be checked again next week", ("bridge",)),
    ("the council will pay for the damage", ("council",)),
    ("volunteers will clean up on Saturday", ("volunteer",)),
    ("a concert will collect money for the families", ("concert",)))
_ASIDES = ("A woman who lives nearby said that she had never seen anything like it.",
           "Many people came to look, and a baker gave them bread.",
           "The radio reported about it for the whole day.",
           "Some shops opened later than usual, and the buses took another way.")


def _summary(rng: random.Random) -> Fields:
    city, day = rng.choice(_CITIES), rng.choice(("Monday", "Tuesday", "Thursday", "Sunday"))
    (event, named), (cause, why), (plan, then) = map(rng.choice, (_HAPPENINGS, _CAUSES, _PLANS))
    number, aside = rng.randrange(12, 90), rng.sample(_ASIDES, 2)
    sentences = [f"On {day} morning there was {event} of {city}.",
                 f"{number} people had to leave their homes.", aside[0],
                 f"As an engineer found out in the afternoon, the cause was {cause}.", aside[1],
                 f"The mayor announced that {plan}."]
    return {"prompt": f"{' '.join(sentences)}\n\nSummarise this in one sentence of at most 30 "
                      "words, with what happened, where, how many people were affected, why, and "
                      "what will follow.",
            "gold": [list(named), [city], [str(number)], list(why), list(then)]}


def problems(number: int, seed: int = 0) -> list[Fields]:
    """The problems of all tasks in turn, so that the first lines have some of each."""
    found = [*gym_problems(number, seed), *own_problems(number, seed)]
    return sorted(found, key=lambda fields: int(fields["id"].rsplit("-", 1)[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--problems", type=int, default=75, help="number of problems per task")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lines = [json.dumps(fields, ensure_ascii=False) + "\n"
             for fields in problems(options.problems, options.seed)]
    options.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
