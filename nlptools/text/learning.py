"""Learning vocabularies: counting words, training SentencePiece, WordPiece and byte-level BPE models.

The sentencepiece and tokenizers packages do the training. This module makes sure that no text is dropped without a warning,
and that the same text gives the same bytes.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from nlptools import messages
from nlptools.errors import DataError, NlptoolsError
from nlptools.files.prefetch import one_ahead
from nlptools.text import huggingface
from nlptools.text.builtin import without_surrogates
from nlptools.text.packages import FastTokenizer, PreTokenizer, sentencepiece_package, tokenizers_package
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import USUAL_NAMES, Vocab

WORD_SPECIAL = ("<unk>", "<s>", "</s>")
BYTE_BPE_SPECIAL = ("<|endoftext|>",)
MAX_LINE_BYTES = 4192  # the limit of spm_train, which skips longer lines

MAX_WORD = 1000  # characters; the time of the tokenizers package grows with the square of the length of a word

_RESERVED = {0x0: " ", 0x2585: " "}  # spm_train skips lines with NUL or with its symbol for unknown words
_SUMS = 16  # the default number of threads of spm_train, which determines the order of its partial sums
_ALPHABET = 1000  # characters that WordPiece keeps, as in the BERT trainer of the tokenizers package
_LONG_SPACE = re.compile(rf"\s{{{MAX_WORD + 1}}}")
_AHEAD = 1000  # lines that are read at a time while a vocabulary is trained
_REPEATS = 1000  # copies of a word in one text for the WordPiece trainer


def count_words(blocks: Iterable[Sequence[str]], tokenizer: Tokenizer) -> Counter[str]:
    """The number of occurrences of each token in blocks of lines; the tokens of `char` include line ends.

    Memory grows with the number of distinct tokens only.
    """
    counts: Counter[str] = Counter()
    for lines in blocks:
        if tokenizer.kind == "whitespace":
            text = "\n".join(lines)
            counts.update((text.lower() if tokenizer.lowercase else text).split())
        else:
            counts.update(chain.from_iterable(tokenizer.tokens_lines(lines)))
            if tokenizer.kind == "char":
                counts["\n"] += len(lines)
    return counts


def word_vocab(counts: Counter[str], special: Sequence[str], size: int = 0, min_count: int = 0) -> Vocab:
    """The special tokens, then the words by descending count; ties in the order of the words.

    Args:
        size: maximum number of entries, including special tokens; 0: no limit.

    Raises:
        DataError: no words.
    """
    if not counts:
        raise DataError("no training data: expected at least one word")
    chosen = list(dict.fromkeys(special))
    known = set(chosen)
    rows = sorted((-count, word) for word, count in counts.items() if count >= min_count and word not in known)
    if size:
        rows = rows[: max(size - len(chosen), 0)]
    words = [word for _, word in rows]
    return Vocab([*chosen, *words], [counts[token] for token in chosen] + [-count for count, _ in rows])


# -- SentencePiece ---------------------------------------------------------------------------------------------------


def train_sentencepiece(
    lines: Iterable[str],
    kind: str,
    size: int,
    *,
    coverage: float = 0.9995,
    special: Sequence[str] = (),
    lowercase: bool = False,
    threads: int = 0,
) -> bytes:
    """A SentencePiece model (Kudo and Richardson 2018): unigram, bpe or char; ids 0 to 2 are <unk>, <s>, </s>.

    Args:
        size: number of pieces; the model has fewer if the text is too short.
        coverage: fraction of the characters that get a piece.
        special: additional symbols. The usual names of padding, class and separator tokens become control symbols, which
            never occur in text; others become user-defined symbols, which are never split.
        lowercase: the model folds case (normalizer nmt_nfkc_cf).
        threads: CPU cores; 0: all. The result does not depend on it.

    Raises:
        DataError: no text, or `size` is too small for the characters in it.
    """
    package = sentencepiece_package()
    source = _Sentences(lines)
    writer = io.BytesIO()
    control, defined = _symbols(special)
    try:
        with _cores(threads):
            package.SentencePieceTrainer.train(
                sentence_iterator=iter(source),
                model_writer=writer,
                model_type=kind,
                vocab_size=size,
                character_coverage=coverage,
                hard_vocab_limit=False,
                control_symbols=control,
                user_defined_symbols=defined,
                normalization_rule_name="nmt_nfkc_cf" if lowercase else "nmt_nfkc",
                num_threads=_SUMS,
                minloglevel=0 if messages.settings.verbose else 2,
            )
    except (RuntimeError, OSError) as error:
        raise source.error or _training_error(error, source, size) from None
    source.report()
    if not writer.getvalue():
        raise _training_error(RuntimeError("no model"), source, size)
    return writer.getvalue()


class _Sentences:
    """Lines that spm_train does not skip: not empty, not too long, without reserved characters."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = lines
        self.seen = self.cut = self.reserved = 0
        self.error: Exception | None = None  # the trainer replaces exceptions of its input by its own

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self.lines:
                if "\0" in line or "\u2585" in line:
                    self.reserved += 1
                    line = line.translate(_RESERVED)
                if not line or line.isspace():
                    continue
                self.seen += 1
                if len(line) * 4 > MAX_LINE_BYTES and len(line.encode("utf-8", "replace")) > MAX_LINE_BYTES:
                    self.cut += 1
                    yield from shorter(line)
                else:
                    yield line
        except (NlptoolsError, OSError) as error:
            self.error = error
            raise

    def report(self) -> None:
        """Warn about changed lines."""
        if self.cut:
            messages.warn(
                f"cut {messages.counted(self.cut, 'line')} longer than {MAX_LINE_BYTES} bytes into shorter ones"
            )
        if self.reserved:
            lines = messages.counted(self.reserved, "line")
            messages.warn(f"in {lines}, NUL and U+2585 (reserved by SentencePiece) became spaces")


def shorter(line: str, limit: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Split `line` into parts of at most `limit` bytes, at spaces if possible, else between characters."""
    data = line.encode("utf-8", "replace")
    start = 0
    while len(data) - start > limit:
        end = data.rfind(b" ", start + 1, start + limit + 1)
        if end < 0:
            end = start + limit
            while data[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
        yield data[start:end].decode()
        start = end
    yield data[start:].decode()


def _symbols(special: Sequence[str]) -> tuple[list[str], list[str]]:
    """(control symbols, which never occur in text; user-defined symbols, which do)."""
    roles = ("pad", "cls", "sep", "bos", "eos")
    names = {name for role in roles for name in USUAL_NAMES[role]}
    symbols = [token for token in dict.fromkeys(special) if token not in WORD_SPECIAL]
    return [token for token in symbols if token in names], [token for token in symbols if token not in names]


@contextlib.contextmanager
def _cores(threads: int) -> Iterator[None]:
    """Restrict the process to `threads` cores; the number of threads of the trainer remains the same."""
    allowed: set[int] = set()
    if threads and hasattr(os, "sched_getaffinity"):
        allowed = set(os.sched_getaffinity(0))
        os.sched_setaffinity(0, sorted(allowed)[:threads])
    try:
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)


def _training_error(error: Exception, source: _Sentences, size: int) -> DataError:
    text = " ".join(str(error).split())
    if not source.seen:
        return DataError("no training data: expected at least one line of text")
    if "smaller than required_chars" in text:
        least = text.split(" vs ")[-1].split(".")[0]
        return DataError(
            f"a vocabulary of {size} is too small: the characters of the text need {least}",
            hint="raise --size or lower --coverage",
        )
    return DataError(f"training failed: {text.split('] ')[-1] or text}")


# -- the tokenizers package -------------------------------------------------------------------------------------------


def train_wordpiece(
    lines: Iterable[str],
    size: int,
    *,
    min_count: int = 0,
    special: Sequence[str] = (),
    lowercase: bool = False,
    strip_accents: bool = False,
    threads: int = 0,
) -> FastTokenizer:
    """A WordPiece `tokenizers.Tokenizer` with the rules of BERT, see `huggingface.wordpiece`. The order of ids is [PAD] [UNK]
    [CLS] [SEP] [MASK], `special`, characters by code point, merges.

    The package numbers characters in the order of a hash table, and breaks ties between merges by these numbers. The
    characters are passed as special tokens, which gives them a fixed order. Only the 1,000 most frequent ones are kept.

    Raises:
        DataError: no text, or `size` is too small for the characters in it.
    """
    package = tokenizers_package(threads)
    final = huggingface.wordpiece({"[UNK]": 0}, lowercase, strip_accents)
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    words: Counter[str] = Counter()
    for chunk, count in counts.items():
        for word, _ in final.pre_tokenizer.pre_tokenize_str(final.normalizer.normalize_str(without_surrogates(chunk))):
            words[word] += count
    if not words:
        raise DataError("no training data: expected at least one word")
    alphabet = _alphabet(words)
    first = [*dict.fromkeys([*huggingface.BERT_SPECIAL, *special]), *alphabet]
    if len(first) > size:
        raise DataError(
            f"a vocabulary of {size} is too small: the characters of the text need {len(first)}", hint="raise --size"
        )
    learner = package.Tokenizer(package.models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = package.pre_tokenizers.WhitespaceSplit()
    trainer = package.trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=min_count, special_tokens=first, show_progress=False
    )
    learner.train_from_iterator(_repeated(_shorter_words(words), {c for c in alphabet if len(c) == 1}), trainer)
    tokenizer = huggingface.wordpiece(learner.get_vocab(with_added_tokens=True), lowercase, strip_accents)
    tokenizer.add_special_tokens([token for token in special if token not in huggingface.BERT_SPECIAL])
    return tokenizer


def _alphabet(words: Counter[str]) -> list[str]:
    """The most frequent characters by code point, then those that occur inside words with the prefix ##."""
    characters: Counter[str] = Counter()
    inner: set[str] = set()
    for word, count in words.items():
        for character in word:
            characters[character] += count
        inner.update(word[1:])
    ranked = sorted(characters.items(), key=lambda item: (-item[1], item[0]))
    kept = sorted(character for character, _ in ranked[:_ALPHABET])
    if len(ranked) > _ALPHABET:
        messages.warn(f"{len(ranked)} distinct characters: the {len(ranked) - _ALPHABET} rarest will be unknown")
    return [*kept, *("##" + character for character in kept if character in inner)]


def _repeated(words: Counter[str], alphabet: set[str]) -> Iterator[str]:
    """Each word as many times as it was counted, without characters outside the alphabet."""
    for word, count in words.items():
        kept = "".join(character for character in word if character in alphabet)
        for start in range(0, count if kept else 0, _REPEATS):
            yield " ".join([kept] * min(_REPEATS, count - start))


def train_byte_bpe(
    lines: Iterable[str],
    size: int,
    *,
    min_count: int = 0,
    special: Sequence[str] = BYTE_BPE_SPECIAL,
    lowercase: bool = False,
    threads: int = 0,
) -> FastTokenizer:
    """A byte-level BPE `tokenizers.Tokenizer` with the rules of GPT-2. The order of ids is `special`, the 256 bytes, merges.

    Raises:
        DataError: no text, or `size` is less than 256 plus the number of special tokens.
    """
    package = tokenizers_package(threads)
    chosen = list(dict.fromkeys(special))
    if size < 256 + len(chosen):
        raise DataError(f"a vocabulary of {size} is too small: bytes and special tokens need {256 + len(chosen)}")
    tokenizer = huggingface.byte_level_bpe({}, [], lowercase)
    words = package.pre_tokenizers.ByteLevel(
        add_prefix_space=False
    )  # the pre-tokenizer of `tokenizer` is locked during training
    long = 0
    trainer = package.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_count,
        special_tokens=chosen,
        initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    seen = 0

    def texts() -> Iterator[str]:
        nonlocal seen, long
        for line in read:
            if line and not line.isspace():
                seen += 1
                text = without_surrogates(line) + "\n"  # so that the vocabulary covers line ends
                cuts = _cuts(text, words) if len(text) > MAX_WORD else []
                long += len(cuts)
                start = 0
                for place in chain.from_iterable(cuts):
                    yield text[start:place]
                    start = place
                yield text[start:]

    read = _read_here(lines)
    tokenizer.train_from_iterator(texts(), trainer)
    _report_cut(long)
    if not seen:
        raise DataError("no training data: expected at least one line of text")
    return tokenizer


def _read_here(lines: Iterable[str]) -> Iterator[str]:
    """The lines, read by a thread that starts here. The package asks for them in its own threads, which may have another table
    of open files, see `guarded_calls`.
    """
    remaining = iter(lines)
    batches = one_ahead(iter(lambda: list(islice(remaining, _AHEAD)), []))
    first = next(batches, [])  # starts the thread
    return chain(first, chain.from_iterable(batches))


def _shorter_words(words: Counter[str]) -> Counter[str]:
    """`words`, with a split of words of more than MAX_WORD characters; warns of their number."""
    long = [word for word in words if len(word) > MAX_WORD]
    if not long:
        return words
    _report_cut(sum(words[word] for word in long))
    shorter = Counter({word: count for word, count in words.items() if len(word) <= MAX_WORD})
    for word in long:
        for start in range(0, len(word), MAX_WORD):
            shorter[word[start : start + MAX_WORD]] += words[word]
    return shorter


def _cuts(text: str, pre_tokenizer: PreTokenizer) -> list[range]:
    """For each word (of the trainer) of more than MAX_WORD characters, the positions to split it at."""
    if max(map(len, text.split()), default=0) <= MAX_WORD and not _LONG_SPACE.search(text):
        return []
    spans = [span for _, span in pre_tokenizer.pre_tokenize_str(text)]
    return [range(start + MAX_WORD, end, MAX_WORD) for start, end in spans if end - start > MAX_WORD]


def _report_cut(count: int) -> None:
    """Warn how many words were split."""
    if count:
        messages.warn(f"cut {messages.counted(count, 'word')} longer than {MAX_WORD:,} characters into shorter ones")
