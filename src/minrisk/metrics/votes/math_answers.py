r"""Extracts the mathematical answer of a text: in \boxed{}, after "answer is", or the last one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from minrisk.metrics.votes.exact_match import canonical_number

_MAX_PHRASE = 300  # characters; a longer phrase is not an answer
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_ANNOUNCEMENT = re.compile(r"\banswer\s*(?:is\b|=|:)|####(?!#)", re.IGNORECASE)
_BREAK = re.compile(r"(?<=[.!?])\s+|\n\s*\n")  # between sentences
_FINISHED = (".", "!", "?", "*", "$", ")", "]", "}")  # endings of texts that are not truncated
_OPENING, _CLOSING = " \t\r\n*_#:$", " \t\r\n*_#:$.,;?"  # markup and punctuation around an answer

_EXPONENT = r"[eE][-+]?\d{1,3}(?!\w|\.\d)"  # a power of ten of plausible size
_NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d+)?(?:\.\d+|(?<=\d))(?:{_EXPONENT})?"
_TERM = rf"{_NUMBER}(?:\s?[-+*/×÷^]\s?{_NUMBER})*"
_EXPRESSION = re.compile(  # the content of mathematical markup, or numbers joined by operators
    r"\$\$([^$]+)\$\$|\\\[(.+?)\\\]|\\\((.+?)\\\)|\$([^$\s][^$]*)\$"
    rf"|(?<![\w.\\^/*+-])(?:{_TERM}\s?=\s?)*([-+]?{_TERM}(?:\s?\\?%)?)(?![\w^]|[.,]\d)", re.DOTALL)

_WORDS = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_MARKS = re.compile(r"\\\$|(?<![\w)])\*\*|\*\*(?![\w(])")  # escaped $ of prices, ** of bold text
_COMMAND = re.compile(r"\\[A-Za-z]+")
_FUNCTION = re.compile(r"(?<![^\W\d_])(?<!\\)(sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi)"
                       r"(?![^\W\d_])")
_DELIMITER = re.compile(r"\\[()\[\]]")
_LETTER, _WORD = re.compile(r"[^\W\d_]"), re.compile(r"[^\W\d_]{2}")
_SYMBOLS = re.compile(r"[\w\s\\+\-−*/^=<>(){}\[\]|!,.%°'&~×·÷√π∞≤≥≠±]+")  # symbols in formulas
_THIN_SPACE = re.compile(r"(?<=\d)(?:\\[,!; ]|\{,\}|~)(?=\d{3})")
_SCIENTIFIC = re.compile(rf"(?<![\w.])(\d+\.?\d*|\.\d+)({_EXPONENT})")
_PERCENT = re.compile(r"(.*\d)\s*\\?%")


def find_answer(text: str) -> str | None:
    r"""The answer of a text; if none is found, the text itself if it is short, else None.

    >>> find_answer(r"2 and 3: \boxed{\frac{1}{2}}"), find_answer("The answer is **0.50**.")
    ('\\frac{1}{2}', '0.5')
    >>> find_answer("2x"), find_answer("2 + 3 = 5. She has 5 cats."), find_answer("no  idea")
    ('2x', '5', 'no idea')
    """
    marked = _boxed(text) or _announced(text)
    formula = _formula_in(_last_sentence(text) if marked is None else marked)
    in_words = "" if marked is None else _normalised(_WORDS.sub(r" \1 ", marked)).strip(_CLOSING)
    whole = _normalised(text)
    return formula or in_words or (whole if len(whole) <= _MAX_PHRASE else "") or None


def is_formula(text: str) -> bool:
    """Whether a text consists only of mathematical symbols, with letters as variables."""
    if not _SYMBOLS.fullmatch(text) or _DELIMITER.search(text) or not any(map(str.isalnum, text)):
        return False
    return _WORD.search(_FUNCTION.sub(" ", _COMMAND.sub(" ", text))) is None


def have_other_variables(one: str, other: str) -> bool:
    """Whether a variable of one formula is in the other only in the other case: x is not X."""
    ours, theirs = ({*_LETTER.findall(_COMMAND.sub(" ", text))} for text in (one, other))
    return any(letter.swapcase() in theirs for letter in ours - theirs)


def as_latex(formula: str) -> str:
    r"""A formula in LaTeX, with commands for function names, and powers of ten written out.

    >>> as_latex("2pi + sin(x)"), as_latex("2e-3x"), as_latex("1.5e3 x")
    ('2\\pi + \\sin(x)', '2e-3x', '1.5\\cdot10^{3} x')
    """
    return _FUNCTION.sub(r"\\\1", _SCIENTIFIC.sub(_power_of_ten, formula))


def _power_of_ten(number: re.Match[str]) -> str:
    return rf"{number[1]}\cdot10^{{{number[2][1:]}}}"


def _boxed(text: str) -> str | None:
    """The content of the last box that is closed and not empty."""
    content: str | None = None
    opened: list[tuple[int, bool]] = []  # start of the content of braces, and whether it is a box
    for match in _BRACES.finditer(text):
        if match[0] == "}" and opened:
            start, is_box = opened.pop()
            if is_box and text[start:match.start()].strip():
                content = text[start:match.start()]
        elif match[0].endswith("{") and match[0] != "\\{":
            opened.append((match.end(), match[0] != "{"))
    return content


def _announced(text: str) -> str | None:
    """The rest of the sentence after the last "answer is" or similar."""
    *_, last = None, *_ANNOUNCEMENT.finditer(text)
    return _BREAK.split(text[last.end():].lstrip(_OPENING), 1)[0].strip() or None if last else None


def _last_sentence(text: str) -> str:
    """The last sentence; empty if it is truncated, unless it is the only one."""
    sentences = [part for part in _BREAK.split(text) if part.strip()] or [""]
    is_whole = len(sentences) == 1 or text.rstrip().endswith(_FINISHED)
    return sentences[-1] if is_whole else ""


def _formula_in(phrase: str) -> str | None:
    """The phrase without units if it is a formula, or else the only expression in it."""
    if len(phrase) > _MAX_PHRASE:
        return None
    phrase = _MARKS.sub("", phrase).lstrip(_OPENING).rstrip(_CLOSING)
    bare = _WORDS.sub(" ", phrase).strip()
    if is_formula(bare):
        return _canonical(bare)
    formulas = {*map(_canonical, _expressions(_WORDS.sub(r" \1 ", phrase)))}
    return formulas.pop() if len(formulas) == 1 else None


def _expressions(text: str) -> Iterator[str]:
    place = 0
    while match := _EXPRESSION.search(text, place):
        expression = match[match.lastindex or 0]
        is_one = is_formula(expression)  # excludes words between the $ of two prices
        if is_one:
            yield expression
        place = match.end() if is_one else match.start() + 1


def _canonical(formula: str) -> str:
    """The canonical form of a number (50% is 0.5); of "3 + 4 = 7", the 7; else the formula."""
    formula = _normalised(_THIN_SPACE.sub("", formula))
    left, equals, right = formula.rpartition("=")
    if equals and right.strip() and not _LETTER.search(_COMMAND.sub(" ", left)):
        formula = right.strip()
    if percent := _PERCENT.fullmatch(formula):
        number = canonical_number(percent[1])
        if is_number(number):
            return canonical_number(f"{Decimal(number).scaleb(-2):f}")
    if _SCIENTIFIC.fullmatch(formula.removeprefix("-")):
        formula = f"{Decimal(formula):f}"
    return canonical_number(formula)


def is_number(text: str) -> bool:
    """Whether a text is a number in its shortest form."""
    return re.fullmatch(r"-?\d+(?:\.\d+)?", text) is not None


def _normalised(text: str) -> str:
    return " ".join(text.split())
