"""Words and punctuation: the rules, and that going back loses nothing but spacing."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.text.character_classes import character_class
from nlptools.text.word_joining import join_words
from nlptools.text.words import spans, split_ascii, split_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("Hello, world!", "Hello , world !"),
        ("It costs $3,000.50 (or more).", "It costs $ 3,000.50 ( or more ) ."),
        ("Mr. Smith met Dr. J. Jones.", "Mr. Smith met Dr. J. Jones ."),
        ("They don't; we'll see.", "They don 't ; we 'll see ."),
        ("the 1990's and the dogs' tails", "the 1990 's and the dogs ' tails"),
        ("He said 'no'.", "He said ' no ' ."),
        ("the U.S. and e.g. this", "the U.S. and e.g. this"),
        ("See No. 5. No. It ends.", "See No. 5 . No . It ends ."),
        ("state-of-the-art -- yes", "state-of-the-art -- yes"),
        ("Wait... what?!", "Wait ... what ? !"),
        ("a,b 1,2 x.y", "a , b 1,2 x.y"),
        ("approx. ten vs. twelve", "approx. ten vs. twelve"),
        ("He left. she did not", "He left. she did not"),  # a lower-case word follows: an abbreviation, by the rule
        ("don’t “quote”", "don ’t “ quote ”"),
        ("snake_case and/or a@b.org", "snake _ case and / or a @ b.org"),
        ("क़िताब नहीं", "क़िताब नहीं"),  # vowel signs belong to their word
    ],
)
def test_rules(text, expected):
    assert " ".join(split_words(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Hello, world! It costs $3,000.50 (or more).",
        "They don't; we'll see the 1990's, the dogs' tails.",
        "He said 'no', and then: \"yes\". Wait... what?!",
        "snake_case and/or a@b.org, 100% [sic] “quoted” don’t",
    ],
)
def test_common_text_comes_back(text):
    assert join_words(split_words(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "„Nein“, rief er, „nie!“ Sie sagte: „Er rief ‚Halt!‘ und lief.“",
        "»Ja« und »Nein«, sagte sie. »Er rief ›Halt!‹« Dann Stille.",
        "«Oui», dit-il. ‹Non›. Il dit «peut-être».",
        "”Hej”, sa han. »Nej», sa hon. “Yes,” he said. “No.”",
        "„Tak”, powiedział. ‘Fine’, she said.",
        "write to a.b@c.org, or ask @someone; #topic and #2, in C# (F# too)",
        "from 9:15 to 17:05, 3/4 of it; well/known re\u2010read",
        "ماذا؟ نعم؛ لا، شكرا۔ 50٪",
        "क्या यह है? हाँ। श्लोक॥ सच।",
        "你好，世界！（真的）「是」、《书》；好：对。",
        "ሰላም። እሺ፣ ደህና፤ ምን፧",
        "Γεια; Բարեւ։ བཀྲ། မင်္ဂလာ။ ជំរាបសួរ។ שלום׃ בית\u05beספר",
        "¿Qué? ¡No! ⟨x⟩ ⁅y⁆ (z) [1] {2} €5 ₹20",
    ],
)
def test_marks_of_many_scripts_come_back(text):
    assert join_words(split_words(text)) == text


def test_two_words_are_never_joined():
    for text in (
        "one @two three",
        "and @me",
        "an @ sign",
        "see # tag",
        "a # b",
        "so : 30 in 10",
        "he » said « no",
        "ab « cd » ef",
    ):
        joined = join_words(split_words(text))
        words = [word for word in split_words(text) if word.isalnum()]
        assert re.findall(r"[^\W_]+", joined) == words, joined
    assert join_words(["text", ".", "«"]) == "text.«" and join_words(["a", "»"]) == "a»"


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d🚀 and 👨🏿\u200d🦰, 🧑\u200d🤝\u200d🧑!",
        "🇫🇷🇮🇹 (🇯🇵) 🇺",
        "#\ufe0f\u20e3 *\ufe0f\u20e3 0\ufe0f\u20e3",
        "©\ufe0f ☎\ufe0e ‼\ufe0f ⁉\ufe0f ℹ\ufe0f ↔\ufe0f",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f, 🏴\u200d☠\ufe0f",
        '+\u0338 =\u0338 (\u0301) .\u0308 ..\u0308 "\u0332 \u25cc\u0e33',
        "e\u0301tude क्षि 각 ก็ ที่ ﾊﾞ \u0600\u0661 \u0600+ \u0600🇫🇫 #\u200d🇫🇷.",
        "❤\ufe0f\u200d🔥❤\ufe0f\u200d🩹ok",
    ],
)
def test_no_word_ends_inside_a_grapheme_cluster(text):
    clusters = pytest.importorskip("regex")
    ends = {match.end() for match in clusters.finditer(r"\X", text)}
    tokens = split_words(text)
    assert {end for _, end in spans(tokens, text)} <= ends
    assert not {"\u200d", "\ufe0f", "\ufe0e", "\u20e3"} & set(tokens)


@settings(deadline=None)
@given(st.text(alphabet="a1.,-+'(👩🏽🚀❤ℹ\u203c\ufe0f\u200d\u200c🇫🇷#\u20e3\u0301\u0e33\u0600\U000e0067가", max_size=12))
def test_no_text_is_cut_inside_a_grapheme_cluster(text):
    clusters = pytest.importorskip("regex")
    ends = {match.end() for match in clusters.finditer(r"\X", text)}
    assert {end for _, end in spans(split_words(text), text)} <= ends


def test_a_flag_and_a_family_are_one_token_each():
    assert split_words("👨\u200d👩\u200d👧🇩🇪🇫🇷ok👍🏽.") == ["👨\u200d👩\u200d👧", "🇩🇪", "🇫🇷", "ok", "👍🏽", "."]


@settings(deadline=None)
@given(st.text(max_size=200))
def test_only_spacing_is_lost(text):
    tokens = split_words(text)
    bare = "".join(text.split())
    assert "".join(tokens) == bare
    assert "".join(join_words(tokens).split()) == bare
    assert all(token and not any(c.isspace() for c in token) for token in tokens)


@settings(deadline=None)
@given(st.text(alphabet="ab \t\n\v\f\r\x1c\x1f\x85\u00a0\u1680\u2003\u2028\u202f\u3000\ufeff", max_size=30))
def test_white_space_of_ascii_is_that_of_bytes(text):
    assert split_ascii(text) == [word.decode() for word in text.encode().split()]


def test_every_wide_space_is_known():
    """All white space of Python beyond ASCII's stays in a word."""
    for c in filter(str.isspace, map(chr, range(sys.maxunicode))):
        assert split_ascii(f"a{c}b") == (["a", "b"] if c in " \t\n\v\f\r" else [f"a{c}b"]), ascii(c)


@settings(deadline=None)
@given(st.text(alphabet="ab'’.,-1 \"($S", max_size=60))
def test_spans_cut_the_text(text):
    tokens = split_words(text)
    assert [text[a:b] for a, b in spans(tokens, text)] == tokens


def test_words_of_english_are_stable(english):
    changed = sum(split_words(join_words(split_words(line))) != split_words(line) for line in english)
    assert changed < len(english) / 10


def test_character_classes_are_complete():
    import re

    for category in "PSN":
        pattern = re.compile(f"[{character_class(category)}]")
        for code in range(sys.maxunicode + 1):
            if 0x4E00 < code < 0x9FFF or 0xAC00 < code < 0xF8FF or code > 0xE01EF:
                continue  # letters and private use; the edges of these blocks are looked at
            assert bool(pattern.match(chr(code))) == (unicodedata.category(chr(code))[0] == category), hex(code)
