"""Running text cut into sentences: by hand in several languages, and laws that hold for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.text.sentences import split_sentences


@pytest.mark.parametrize(
    "marked",
    [
        "One. | Two! | Three? | Four… | Five... | Six?! | Seven",
        'He left! | "Why?" she asked. | "Because." | (It was late.) | [So.] | He went',
        "Dr. Smith met J. R. Brown at 5 p.m. in the U.S. embassy. | Mr. and Mrs. Hill, Ph.D. students, came.",
        "It cost 3.50, see No. 5 and fig. 3, i.e. nothing. | No. | Version 2.0 is at www.example.org.",
        "1. First item. | 2. Second item. | IV. Fourth item. | In 1999. | Then again.",
        "Yahoo! is big. | She wrote… nothing. | What? | – Yes.",
        "¿Qué? | ¡No! | La Sra. Díaz vive aquí. | «Sí.» | Bien.",
        "Am 3. Oktober kam z. B. Dr. Müller, bzw. Hr. Maier. | Es war 12. | Im 19. Jahrhundert „war es so.“ | Gut.",
        "»Nein.« | »Ist das wahr? | Wirklich?« | ‚Doch.‘ | ›So.‹ | Er ging. | »Er sagte: ›Geh!‹« | Sie blieb.",
        "»Ja.« sagte er. | „Sie rief: ‚Halt!‘“ | Dann war Ruhe. | »Nej!« | »Hvad?» | Slut.",
        "« Non. » | ‹ Oui. › | ”Hej.” | Hon gick. | “It’s ‘fine.’” | Good.",
        "It was so.[1] | It was not.[2][3] | Or was it?[a] | “Yes.”[4, 5] | See p. 5–7.[note 2] | Sure![citation needed] | End.",
        "It rained.¹² | It snowed.[7–9] | Dr.[1] Smith and the U.S.[2] army came. | [So.] | He went",
        "यह है।[1] | वह है॥[2] | 彼は言った。[3] | そうだ。",
        "M. Dupont et Mme Durand sont là. | « Vraiment ? » | Oui !",
        "Он родился в 1900 г. в Москве. | Потом уехал. | См. рис. 5. | Всё!",
        "Γεια σας. | Τι κάνετε? | Καλά.",
        "彼は言った。 | 「はい。」と答えた。 | 本当？ | そうだ！",
        "他走了。 | “走吧！” | 她笑了…… | 好。",
        "هل أنت بخير؟ | نعم. | شكرا!",
        "आप कैसे हैं? | यह एक वाक्य है। | दूसरा वाक्य॥ | तीसरा",
        "Բարեւ։ | Ինչպես ես։",
        "ሰላም። | እንዴት ነህ፧ | ደህና።",
        "ภาษาไทยไม่มีจุด ประโยคยังไม่จบ",
    ],
)
def test_by_hand(marked: str) -> None:
    """Where a bar stands, with or without space, a sentence ends, and nowhere else."""
    expected = [part.strip() for part in marked.split("|")]
    assert split_sentences(" ".join(expected)) == expected


def test_scripts_that_need_no_space_between() -> None:
    assert split_sentences("本当？そうだ！行こう。") == ["本当？", "そうだ！", "行こう。"]
    assert split_sentences("एक।दो।") == ["एक।", "दो।"]
    assert split_sentences("one.Two.three") == ["one.Two.three"]


def test_white_space() -> None:
    assert split_sentences("") == split_sentences(" \t ") == []
    assert split_sentences("  One.\tTwo.\u3000 ") == ["One.", "Two."]
    assert split_sentences("...") == ["..."]


@given(st.text(st.sampled_from("aB1 .!?…。」\"'()\u2028\tDr-")) | st.text())
def test_nothing_is_lost_and_no_sentence_is_empty(text: str) -> None:
    found = split_sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in found)


@given(st.lists(st.sampled_from(["The cat sat.", "Who is it?", "Stop!", "“Fine.”", "It is 3.5."]), min_size=1))
def test_plain_sentences_come_apart_again(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == sentences
