"""Writes the inputs that fuzzing of the native core starts from, all of them made up for it.

`corpus/texts` is for all targets but TER: texts in UTF-8 with a byte 0xff between them, then bytes
that choose the options. `corpus/words` is for TER: a byte for each word, 0xff between two texts,
and one byte for the number of distinct words.

usage: python tests/fuzz/seeds.py
"""

from __future__ import annotations

import random
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
OPTIONS = 48  # bytes: at least as many as a target reads

SPACES = ("\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029"
          "\u202f\u205f\u3000")
TEXTS: dict[str, list[str]] = {
    "nothing": [""],
    "nothings": ["", "", " ", "\u3000"],
    "english": ["The cat sat on the mat.", "A cat sat on a mat!", "On the mat, the cat sat."],
    "western": ["L'été, où est-il ?", "« Où est l'été ? »", "Größe: 1,5–2,5 m", "¿Dónde está?"],
    "greek": ["ΟΔΥΣΣΕΥΣ ΚΑΙ ΣΑΣ", "οδυσσεύς και σας", "Οδυσσέας"],
    "cyrillic": ["Кошка сидит на коврике.", "На коврике сидела кошка…"],
    "right-to-left": ["القطة على السجادة.", "החתול יושב על השטיח", "שָׁלוֹם عَلَيْكُمْ"],
    "indic-and-thai": ["बिल्ली चटाई पर बैठी है।", "แมวนั่งบนเสื่อ", "பூனை பாயில் உள்ளது"],
    "chinese": ["猫坐在垫子上。", "垫子上坐着一只猫，3.5公斤。", "A猫B坐，在"],
    "japanese": ["猫はマットの上に座った。", "ネコが、ﾏｯﾄの上に㈱⺀", "ひらがなカタカナ"],
    "korean": ["고양이가 매트 위에 앉았다.", "\u1100\u1161\u11a8 각 가"],
    "emoji": ["👩‍👩‍👧‍👦👍🏽🇫🇷🏳️‍🌈", "👍🏽👍👍🏿", "1️⃣ ok 👌"],
    "combining": ["e\u0301e\u0301 é", "a" + "\u0300\u0316\u0489" * 12, "\u0301\u0301 \u0301"],
    "spaces": [SPACES, "a".join(SPACES), f"{SPACES}b{SPACES}", "ab\x1ccd\u2003ef"],
    "tokens": ["&amp;lt;3 1,000.5, 7-8 a-b. .5 ...", "<skipped>-\n&quot;x&quot; &amp;amp;-\n-",
               "1.,2 .,3-4- -5,.", "([{<a>}]) it's 'quoted', \"so\".", "...,,,--- 1-1-1 .1."],
    "marks": ["!word word! (hi) ''", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "! !! a! !a !a!"],
    "repeats": ["a" * 600, "ab" * 150 + " ", "a a " * 100],
    "long-repeats": ["a" * 5000, "a" * 4999 + "b"],
    "distinct": ["".join(map(chr, range(0x4E00, 0x4E00 + 180))),
                 "".join(map(chr, range(0x4E00 + 90, 0x4E00 + 270)))],
    "equal": ["the same text"] * 9 + ["the  same  text"],
    "planes": ["\0\x01\x7f\x80\xff", "\ud7ff\ue000\uffff", "\U00010000\U0001F600\U0010FFFF"],
    "lone-surrogates": ["\ud800a\udc00", "\udbff\udfff", "a\ud800"],
}
NO_UTF8 = b"ab\x80cd\xfe\xc3\xff\xe2\x82\xff\xf4\x90\x80\x80\xff\xc0\x80 \xed\xa0\x80"


def write_texts(draw: random.Random) -> None:
    folder = CORPUS / "texts"
    for name, texts in TEXTS.items():
        data = b"\xff".join(text.encode("utf-8", "surrogatepass") for text in texts)
        for variant in range(3):
            (folder / f"{name}-{variant}").write_bytes(data + draw.randbytes(OPTIONS))
    (folder / "no-utf-8").write_bytes(NO_UTF8 + draw.randbytes(OPTIONS))
    (folder / "no-options").write_bytes(b"")


def write_words(draw: random.Random) -> None:
    words = bytes(draw.randrange(60) for _ in range(100))
    sides = {
        "nothing": (b"", b""), "no-hypothesis": (b"", words[:9]), "no-reference": (words[:9], b""),
        "equal": (words[:20], words[:20]), "one-block": (words[:20], words[12:20] + words[:12]),
        "far": (words[:70], words[60:70] + words[:60]),
        "two-blocks": (words[:40], words[30:40] + words[10:30] + words[:10]),
        "beyond-a-word-of-bits": (words[:90], words[5:]), "long": (words, words[::-1]),
        "short-and-long": (words[:2], words), "repeats": (b"ab" * 40, b"ba" * 40),
        "one-word": (b"a" * 99, b"a" * 70),
    }
    for name, (hyp, ref) in sides.items():
        for alphabet in (3, 63):
            (CORPUS / "words" / f"{name}-{alphabet + 1}").write_bytes(
                hyp + b"\xff" + ref + bytes([alphabet]))


def main() -> None:
    for kind in ("texts", "words"):
        (CORPUS / kind).mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    write_texts(draw)
    write_words(draw)


if __name__ == "__main__":
    main()
