"""Write the harder tasks of ``tasks/eval``: ``python scripts/gen_eval_tasks.py [FOLDER]``. The same files each time.

Each task is told from facts drawn by a seed; the right answer is computed from the facts, the texts are one way among several to put
them into words. What makes them hard is said in each function.
"""

from __future__ import annotations

import argparse
import calendar
import csv
import datetime as dt
import io
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parent.parent
MONTHS = calendar.month_name[1:]
Rows = list[list[Any]]

SUPPLIERS = "Aldous Birch Corran Dunmore Esker Fallow Garrick Hollin Ister Jessop Kell Lorne Marden Nairn Orrel Penrith Quill Rannoch"
FIRST_NAMES = "Anna Berta Clara Dora Edith Frieda Greta Hilda Irma Jutta Karla Lotte Martha Nora Olga Paula Rosa Selma Thea Ursula"
LAST_NAMES = "Adler Brandt Conrad Dietz Ebert Falk Graf Huber Jahn Kern Lang Moser Nagel Otto Pohl Reuter Stahl Thiel Ulrich Voss"
EPITHETS = (
    "the ferryman's widow,the tallest woman of the town,the baker at the bridge,the keeper of the lighthouse,the notary's clerk,the "
    "midwife,the organist,the woman with the red door,the glazier,the beekeeper,the postmistress,the schoolteacher,the innkeeper of the "
    "Swan,the clockmaker's daughter"
)
BUYERS = "Ada Bruno Carla Dario Elsa Fabio Gina Hugo Ines Jonas Katja Leo Mina Nils Otto Pia Quirin Rita Sven Tilda Uwe Vera Willi Xenia"
PLAIN_FOODS = "leeks,potatoes,rice,tomatoes,lentils,spinach,carrots,olive oil,lemon,parsley,beetroot,apples,white beans,fennel,thyme"
GUESTS = "Alma Boris Cilla Denis Edda Flora Gregor Hanna Ivo Judith Kai Lena Mirko Nele Oskar Petra"


@attrs.frozen
class Written:
    """A task: what is asked, its files by name (``.csv`` ones are tables, all others texts), the right rows and how they are compared."""

    question: str
    files: dict[str, str]
    expected: Rows
    check: str = "rows"


def day(date: dt.date) -> str:
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def terms_in_force(pick: random.Random) -> Written:
    """Contradictory sources: what counts is the newest letter by its own date that was neither a draft nor withdrawn, and has taken effect.
    The file's order is not that of the dates, and a withdrawal names a letter by its number alone."""
    names = SUPPLIERS.split()
    cut, letters, number = dt.date(2023, 6, 30), list[tuple[int, str]](), 100
    expected: Rows = []
    for name in names:
        in_force: tuple[dt.date, int] | None = None
        days = pick.sample([14, 21, 30, 45, 60, 75, 90], 6)
        dates = sorted(pick.sample(range(720), 6))
        for term, offset in zip(days, dates, strict=True):
            written = dt.date(2022, 1, 3) + dt.timedelta(days=offset)
            number += pick.randint(1, 4)
            kind = pick.choice(["plain", "plain", "plain", "draft", "withdrawn", "later"]) if in_force else "plain"
            effective = written + dt.timedelta(days=pick.choice([120, 200])) if kind == "later" else written
            said = {
                "plain": pick.choice(
                    [
                        f"we have agreed with {name} & Sons that their invoices fall due {term} days after receipt.",
                        f"from today {name} & Sons get their money {term} days after we have the bill.",
                        f"with {name} & Sons the term of payment is {term} days; what was said before no longer holds.",
                    ]
                ),
                "draft": pick.choice(
                    [
                        f"this is for discussion only: could we offer {name} & Sons {term} days?",
                        f"{name} & Sons have asked for {term} days. Nobody has answered them yet.",
                    ]
                ),
                "withdrawn": f"{name} & Sons are to be paid after {term} days.",
                "later": f"as of {day(effective)} invoices of {name} & Sons fall due after {term} days; until then nothing changes.",
            }[kind]
            letters.append((offset, f"Letter {number}, {day(written)}. To the accounts office: {said}"))
            if kind == "withdrawn":
                after = written + dt.timedelta(days=pick.randint(2, 30))
                note = pick.choice(
                    [
                        f"letter {number} went out by mistake. Treat it as not written.",
                        f"please strike letter {number} from the file; it was never approved.",
                    ]
                )
                letters.append((offset + 1, f"Letter {number + 1000}, {day(after)}. To the accounts office: {note}"))
            if kind in ("plain", "later") and effective <= cut and (in_force is None or effective > in_force[0]):
                in_force = (effective, term)
        assert in_force is not None
        expected.append([f"{name} & Sons", in_force[1]])
    texts = [text for _, text in letters]
    pick.shuffle(texts)
    return Written(
        "These letters about terms of payment lie in no order. Which term, in days, was in force for each supplier at the end of 30 June 2023? "
        "A letter counts from its own date unless it says otherwise; proposals do not count, nor do letters that were withdrawn, whenever that was; of "
        "two that count, the one that took effect later holds. Give one row a supplier: its name and the days.",
        {"letters.txt": "\n\n".join(texts) + "\n"},
        expected,
    )


def chain_of_hands(pick: random.Random) -> Written:
    """Multi-hop over a long text: each step names its people by what an earlier paragraph said of them, and most paragraphs lead nowhere."""
    firsts = FIRST_NAMES.split()
    lasts = LAST_NAMES.split()
    people = [f"{f} {last}" for f in firsts for last in pick.sample(lasts, 3)]
    pick.shuffle(people)
    trades = EPITHETS.split(",")
    epithets = dict(zip(people, trades, strict=False))
    things = ["brass astrolabe", "ivory chessboard", "silver astrolabe", "brass sextant", "walnut violin", "blue Bible"]
    lines: list[tuple[int, str]] = [
        (
            1880,
            pick.choice(
                [f"{n} was known in those years as {e}.", f"Everybody called {n} {e}.", f"Of {n} people spoke as {e}."]
            ),
        )
        for n, e in epithets.items()
    ]
    hands: dict[str, list[str]] = {}
    for thing in things:
        hands[thing] = pick.sample(people[:30], 9)
        years = sorted(pick.sample(range(1882, 1930), 8))
        for giver, taker, year in zip(hands[thing], hands[thing][1:], years, strict=False):
            a, b = (epithets.get(n, n) if pick.random() < 0.8 else n for n in (giver, taker))
            lines.append(
                (
                    year,
                    pick.choice(
                        [
                            f"In {year} the {thing} went from {a} to {b}, in payment of a debt.",
                            f"It was in {year} that {b} got the {thing}; {a} had lost it to her at cards.",
                            f"{a[0].upper() + a[1:]} died in {year} and left the {thing} to {b}.",
                            f"{year}: {b} bought at auction what {a} had owned, the {thing}.",
                            f"{a[0].upper() + a[1:]} promised the {thing} to her niece, and yet in {year} it was {b} who carried it home.",
                        ]
                    ),
                )
            )
        hands[f"{thing} years"] = [str(y) for y in years]
    for _ in range(420):
        year, a, b = pick.randint(1881, 1930), *pick.sample(people, 2)
        lines.append(
            (
                year,
                pick.choice(
                    [
                        f"In {year} {a} sold a cow to {b}, who paid late.",
                        f"{a} and {b} quarrelled in {year} over the wall between their gardens.",
                        f"In {year} {a} showed {b} a {pick.choice(things)}, a copy, as was found later.",
                        f"{b} asked {a} in {year} for the {pick.choice(things)} and was refused.",
                        f"The winter of {year} was hard; {a} lodged with {b} until the thaw.",
                    ]
                ),
            )
        )
    pick.shuffle(lines)
    thing, year = things[0], 1911
    owned = 1 + sum(int(y) <= year for y in hands[f"{thing} years"])
    return Written(
        f"This chronicle lies in no order of time. Who owned the {thing} at the end of {year}, and how many people had owned it by then, she "
        "included? Copies, promises and refusals move nothing. Give one row: her first and last name, and the number.",
        {"chronicle.txt": "\n\n".join(text for _, text in lines) + "\n"},
        [[hands[thing][owned - 1], owned]],
    )


def refunds(pick: random.Random) -> Written:
    """A join of letters with tables, where no letter has an order's number: buyer, goods and time must be told from words."""
    goods = {"lamp": 40, "kettle": 35, "chair": 85, "blanket": 28, "clock": 60, "mirror": 75}
    names = BUYERS.split()
    orders, letters, total = list[list[Any]](), list[str](), 0
    causes = {
        True: ["cracked right through on the way here", "dead from the first minute", "all in pieces when I opened the box"],
        False: ["in good order, but my wife likes another colour better", "as it should be; I found it cheaper elsewhere", "a gift, and whom I gave it has one already"],
    }  # fmt: skip
    number = 5000
    for name in names:
        bought = [
            (g, dt.date(2024, m, pick.randint(1, 28)))
            for g, m in zip(pick.sample(list(goods), 3), pick.sample(range(1, 7), 3), strict=True)
        ]
        counts = [pick.choice([1, 1, 2, 3]) for _ in bought]
        for (good, date), count in zip(bought, counts, strict=True):
            number += pick.randint(1, 9)
            orders.append([number, name, good, count, goods[good], date.isoformat()])
        for (good, date), count in list(zip(bought, counts, strict=True))[: pick.randint(1, 2)]:
            bad, late = pick.random() < 0.6, pick.random() < 0.35
            written = date + dt.timedelta(days=pick.randint(61, 90) if late else pick.randint(4, 59))
            broken = pick.randint(1, count)
            which = (
                "it"
                if count == 1
                else f"{['', 'one', 'two', 'three'][broken]} of the {['', 'one', 'two', 'three'][count]}"
            )
            cause = pick.choice(causes[bad])
            letters.append(
                f"{day(written)}. Dear shop, in {MONTHS[date.month - 1]} you sent me {'a' if count == 1 else ['', '', 'two', 'three'][count]} "
                f"{good}{'' if count == 1 else 's'}. I am sorry to say of {which}: {cause}. I would like my money back. Yours, {name}"
            )
            if bad and not late:
                total += broken * goods[good]
    pick.shuffle(letters)
    pick.shuffle(orders)
    policy = (
        "Our terms: we pay back the price of each piece that came to the buyer damaged or does not work, if the letter is dated at most 60 days after "
        "the day of the order. For pieces that are in order nothing is paid back."
    )
    return Written(
        "By the terms at the head of the letters and the table of orders, how much do we pay back in all for these letters, in euros? Give the number.",
        {"letters.txt": "\n\n".join([policy, *letters]) + "\n", "orders.csv": table(["order_no", "buyer", "good", "pieces", "price_each", "ordered_on"], orders)},
        [[total]],
        "number",
    )  # fmt: skip


def incidents(pick: random.Random) -> Written:
    """Near-duplicates: one incident is reported up to four times, each time in other words, by machine's number or by its nickname, with the
    date in another form. Two incidents on one day at different machines are two."""
    nicknames = {"P-1": "Old Molly", "P-2": "the Whale", "P-3": "Big Sister", "P-4": "the Goat", "P-5": "Little Molly", "P-6": "the Sewing Machine", "P-7": "the Bishop"}  # fmt: skip
    places = {
        "P-1": "North",
        "P-2": "North",
        "P-3": "South",
        "P-4": "South",
        "P-5": "East",
        "P-6": "East",
        "P-7": "North",
    }
    kinds = {
        "leak": ["lost oil all over the floor", "was standing in its own oil", "had a seal gone, there was oil everywhere", "dripped so that we had to put sand down"],
        "fire": ["burned, we put it out with two bottles", "was on fire for a minute or so", "had flames coming from the motor"],
        "stop": ["stood still for no reason that anyone could see", "would not start again after the break", "just stopped, in the middle of a batch"],
    }  # fmt: skip
    happened = {
        (
            dt.date(2024, pick.randint(1, 12), pick.randint(1, 28)),
            pick.choice(list(nicknames)),
            pick.choice(list(kinds)),
        )
        for _ in range(95)
    }
    reports = []
    for date, machine, kind in sorted(happened):
        for said in pick.sample(kinds[kind], min(len(kinds[kind]), pick.choice([1, 1, 2, 2, 3, 4]))):
            form = pick.choice(
                [
                    day(date),
                    date.isoformat(),
                    f"{date.day}/{date.month} of this year",
                    f"the {date.day} of {MONTHS[date.month - 1]}",
                ]
            )
            what = machine if pick.random() < 0.4 else nicknames[machine]
            who = pick.choice(["Shift leader", "Fitter", "Night watch", "Apprentice", "Cleaner"])
            reports.append(
                pick.choice([f"{who}, {form}: {what} {said}.", f"{form}. {what[0].upper() + what[1:]} {said}. ({who})"])
            )
    pick.shuffle(reports)
    found = Counter((places[m], k) for _, m, k in happened)
    expected: Rows = [[place, found[place, "leak"], found[place, "fire"]] for place in ("North", "South", "East")]
    return Written(
        "These reports are all of 2024. An incident is one machine with one trouble on one day, and several people may have reported it. How many "
        "different leaks of oil, and how many different fires, did each hall have? Give one row a hall: its name, leaks, fires. Machines stand in "
        "the table of machines; the trouble that a machine just stood still is neither. Dates like 7/3 are day and month.",
        {"reports.txt": "\n\n".join(reports) + "\n", "machines.csv": table(["machine", "called", "hall"], [[m, n, places[m]] for m, n in nicknames.items()])},
        expected,
    )  # fmt: skip


def guests(pick: random.Random) -> Written:
    """A semantic join: what a guest does not eat is a kind of food in her own words, what a dish has is a list of single foods."""
    foods = {
        "fish": ["trout", "anchovies", "smoked mackerel", "cod roe"],
        "shellfish": ["mussels", "prawns", "crab", "scallops"],
        "meat": ["bacon", "veal", "chorizo", "duck breast", "lard"],
        "dairy": ["ricotta", "double cream", "butter", "yoghurt", "Gruyère"],
        "gluten": ["bulgur", "couscous", "barley", "puff pastry", "breadcrumbs"],
        "nuts": ["almonds", "walnuts", "pistachios", "hazelnut oil"],
        "egg": ["meringue", "hollandaise", "mayonnaise", "poached egg"],
        "alcohol": ["sherry", "kirsch", "white wine", "stout"],
    }
    also = {"hollandaise": {"dairy"}, "puff pastry": {"dairy"}, "stout": {"gluten"}}
    plain = PLAIN_FOODS.split(",")
    words = {
        "fish": ["nothing that has fins, nor its eggs", "no fish in any form"],
        "shellfish": ["no mussel, crab or anything of that kind", "no creature of the sea with a shell"],
        "meat": ["no beast and no bird", "no flesh of animals that graze, root or fly, nor their fat"],
        "dairy": ["nothing that comes from milk"],
        "gluten": ["nothing made of wheat, barley or rye"],
        "nuts": ["nothing from the shell of a nut, oils of it included"],
        "egg": ["nothing a hen has laid, in sauces neither"],
        "alcohol": ["nothing cooked with wine, beer or spirits"],
    }
    dishes: dict[str, set[str]] = {}
    cards = []
    for number in range(1, 37):
        kinds = pick.sample(list(foods), pick.choice([1, 1, 2, 2, 3]))
        picked = [pick.choice(foods[k]) for k in kinds]
        dishes[f"No. {number}"] = {*kinds, *(k for p in picked for k in also.get(p, set()))}
        parts = [*picked, *pick.sample(plain, 4)]
        pick.shuffle(parts)
        cards.append(f"No. {number}: {', '.join(parts[:-1])} and {parts[-1]}.")
    names = GUESTS.split()
    lines, counted = [], list[list[Any]]()
    for name in names:
        avoids = pick.sample(list(words), pick.choice([2, 3, 3, 4]))
        lines.append(f"{name} eats {'; '.join(pick.choice(words[a]) for a in avoids)}.")
        counted.append([name, sum(not have & set(avoids) for have in dishes.values())])
    return Written(
        "The first part of this text says what each guest does not eat, the second what each dish is made of. For each guest, how many of the dishes "
        "can she or he eat? Give one row a guest: the name and the number. Butter is in hollandaise and in puff pastry; stout is brewed from "
        "barley.",
        {"dinner.txt": "\n\n".join([*lines, *cards]) + "\n"},
        counted,
    )


def not_inspected(pick: random.Random) -> Written:
    """Absent and negated facts: a report may say that a thing was checked, that it was not, or nothing of it, each in many ways."""
    done = {
        "extinguisher": ["the red bottle by the door carries this year's seal", "I had the extinguisher weighed and it is full", "the extinguisher was serviced on the spot"],
        "alarm": ["the smoke detector howled when I pressed its knob", "I tested the alarm and it rang", "a puff of test gas set the alarm off at once"],
        "exit": ["the way out is free and its lamp burns", "I walked the escape route without moving a thing", "the emergency door opened at the first push"],
    }  # fmt: skip
    undone = {
        "extinguisher": ["nobody knew when the extinguisher had last been looked at, and I had no time to", "the extinguisher hangs where it should, its label I could not read"],
        "alarm": ["the alarm I left for the next visit", "they asked me not to set the alarm off, so I did not"],
        "exit": ["the emergency door was behind a pallet, I could not try it", "of the escape route I have only the plan, not the walk"],
    }  # fmt: skip
    chatter = ["the caretaker offered coffee", "two windows want painting", "the floor was wet", "the radiators are new", "somebody had left a bicycle in the hall", "the lift is out of order until Monday"]  # fmt: skip
    reports, expected = [], list[list[Any]]()
    for room in pick.sample(range(101, 480), 110):
        missing = []
        parts = pick.sample(chatter, 2)
        for item in done:
            state = pick.choices(["done", "undone", "silent"], [80, 10, 10])[0]
            if state != "done":
                missing.append(item)
            if state != "silent":
                parts.append(pick.choice((done if state == "done" else undone)[item]))
        pick.shuffle(parts)
        reports.append(f"Room {room}. " + ". ".join(p[0].upper() + p[1:] for p in parts) + ".")
        expected += [[room, item] for item in missing]
    return Written(
        "In each room the extinguisher, the alarm and the exit were to be checked. List every check that was not made, whether the report says so or "
        "does not speak of it: one row each with the room's number and one of the words extinguisher, alarm, exit.",
        {"rounds.txt": "\n\n".join(reports) + "\n"},
        expected,
    )


def flock(pick: random.Random) -> Written:
    """Arithmetic over words: a daybook counts in scores, dozens and pairs, corrects itself, and speaks of several farms."""
    units = {"score": 20, "dozen": 12, "pair": 2}
    small = ["no", "one", "two", "three", "four", "five", "six", "seven"]
    farms = ["Ashby", "Upper Ashby", "Thornton", "Marsh End"]
    lines, flocks = [], dict.fromkeys(farms, 200)
    date = dt.date(1873, 1, 2)
    for _ in range(150):
        date += dt.timedelta(days=pick.choice([1, 2, 3]))
        farm, other = pick.sample(farms, 2)
        unit, n, extra = pick.choice(list(units)), pick.randint(1, 3), pick.randint(1, 7)
        count = n * units[unit] + extra
        unit_word = {"score": "score", "dozen": "dozen", "pair": "pair" if n == 1 else "pairs"}[unit]
        said = f"{small[n]} {unit_word} and {small[extra]}"
        kind = pick.choice(["lambed", "sold", "moved", "lost", "goats", "correct", "offer"])
        head = f"{day(date)}: "
        if kind == "lambed":
            flocks[farm] += count
            lines.append(head + f"at {farm} {said} of lambs were dropped, all living.")
        elif kind == "sold" and flocks[farm] > count:
            flocks[farm] -= count
            lines.append(head + pick.choice([f"{said} sheep of {farm} went to the market and none came back.", f"the butcher had {said} of the sheep from {farm}."]))  # fmt: skip
        elif kind == "moved" and flocks[farm] > count:
            flocks[farm] -= count
            flocks[other] += count
            lines.append(head + f"drove {said} sheep over the hill from {farm}, and they stay at {other} now.")
        elif kind == "lost" and flocks[farm] > extra:
            flocks[farm] -= extra
            lines.append(head + f"the dogs killed {small[extra]} sheep at {farm}.")
        elif kind == "goats":
            lines.append(head + f"{farm} bought {said} goats.")
        elif kind == "offer":
            lines.append(head + f"a dealer bid for {said} sheep of {farm}; we did not agree.")
        elif kind == "correct":
            flocks[farm] += count - extra
            lines.append(head + f"bought {said} sheep for {farm}. Correction at night: {small[extra]} of these were not sheep of ours and went home.")  # fmt: skip
    return Written(
        "On 1 January 1873 each of the four farms had ten score of sheep; lambs are sheep. How many sheep does each have after the last entry of this "
        "daybook? Give one row a farm: its name and the number.",
        {"daybook.txt": "\n\n".join(lines) + "\n"},
        [[f, n] for f, n in flocks.items()],
    )


TASKS: dict[str, tuple[int, Callable[[random.Random], Written]]] = {
    "hard-terms-in-force": (11, terms_in_force),
    "hard-chain-of-hands": (12, chain_of_hands),
    "hard-refunds": (13, refunds),
    "hard-incidents": (14, incidents),
    "hard-guests": (15, guests),
    "hard-not-inspected": (16, not_inspected),
    "hard-flock": (17, flock),
}
"""By folder, each with its seed."""


def files_of(name: str) -> dict[str, str]:
    """The files of a task's folder."""
    seed, write = TASKS[name]
    task = write(random.Random(seed))
    body = {
        "context": [f for f in task.files if not f.endswith(".csv")],
        "data": [f for f in task.files if f.endswith(".csv")],
        "check": task.check,
        "expected": task.expected,
    }
    return {"task.md": task.question + "\n", "task.json": json.dumps(body, indent=1) + "\n", **task.files}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "tasks" / "eval")
    folder = parser.parse_args(argv).folder
    for name in TASKS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, text in files_of(name).items():
            (folder / name / file).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
