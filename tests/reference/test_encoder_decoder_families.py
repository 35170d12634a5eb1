"""Encoder-decoders of published families: T5, BART, mBART, M2M-100, NLLB. States, logits, texts and ids are equal to those of
transformers, and directories that are written here open there.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sentencepiece
import torch
from conftest import each_value
from safetensors.torch import load_file

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.compute.kernels import int8
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.generation import Generate
from nlptools.configs.seq2seq import PairTraining, TrainSeq2Seq, Translate
from nlptools.errors import BundleError, UsageError
from nlptools.inference import loading, uses
from nlptools.inference.quantization import quantize
from nlptools.inference.translation import Translator
from nlptools.models.huggingface import directories
from nlptools.text import pair_format, tokenizer_pairs
from nlptools.training.translation import train_seq2seq

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

_RNG = random.Random(1)
_WORDS = ["".join(_RNG.choice("abcdefghéäж日本हि") for _ in range(_RNG.randint(1, 6))) for _ in range(300)]
LINES = [" ".join(_RNG.choice(_WORDS) for _ in range(8)) for _ in range(400)]
TEXTS = [
    *LINES[:30],
    "",
    " ",
    "  abc   de ",
    "日本 zz Q",
    "a\tb",
    "👍🏽 ok",
    "abc<mask>de",
    "<extra_id_0> abc <extra_id_1>.",
]
BACKEND = Backend(torch.device("cpu"))

_T5 = {"d_model": 32, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4, "d_kv": 12,
       "decoder_start_token_id": 0}  # fmt: skip
_BART = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
         "encoder_ffn_dim": 40, "decoder_ffn_dim": 48, "max_position_embeddings": 64}  # fmt: skip
_OF_T5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


class Case(NamedTuple):
    """A model and its tokenizer."""

    name: str  # of classes of models
    sizes: dict[str, Any]
    tokenizer: str  # class
    model: str = "unigram"  # of SentencePiece, or "bytes"
    settings: tuple[tuple[str, Any], ...] = ()  # of the tokenizer
    languages: tuple[str | None, str | None] = (None, None)


CASES = {
    "t5": Case("T5", _T5, "T5Tokenizer"),
    "t5-gated": Case("T5", {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, "T5Tokenizer"),
    "mt5": Case("MT5", {**_T5, "feed_forward_proj": "gated-silu"}, "T5Tokenizer", settings=(("extra_ids", 0),)),
    "pegasus": Case("Pegasus", {**_BART, "scale_embedding": True}, "PegasusTokenizer"),
    "bart": Case("Bart", _BART, "BartTokenizer", "bytes"),
    "mbart": Case("MBart", {**_BART, "scale_embedding": True}, "MBartTokenizer", languages=("de_DE", "ro_RO")),
    "mbart50": Case("MBart", {**_BART, "decoder_start_token_id": 2}, "MBart50Tokenizer", languages=("de_DE", "sl_SI")),
    "m2m": Case("M2M100", _BART, "M2M100Tokenizer", "bpe", languages=("de", "zu")),
}
_FILES = {"T5Tokenizer": "spiece.model", "PegasusTokenizer": "spiece.model"}


def _pieces(kind: str, tokenizer: str) -> bytes:
    out = io.BytesIO()
    ids = _OF_T5 if tokenizer in _FILES else {}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=out, vocab_size=200, model_type=kind, hard_vocab_limit=False,
        minloglevel=2, **ids,
    )  # fmt: skip
    return out.getvalue()


def _classic(directory: Path, case: Case) -> Path:
    """A directory with the classic files of a tokenizer."""
    directory.mkdir()
    settings = {"tokenizer_class": case.tokenizer, **dict(case.settings)}
    if case.languages[0]:
        settings |= {"src_lang": case.languages[0]}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    if case.model == "bytes":
        import tokenizers

        trained = tokenizers.ByteLevelBPETokenizer()
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        trained.train_from_iterator(LINES, 400, special_tokens=special, show_progress=False)
        trained.save_model(str(directory))
        return directory
    model = _pieces(case.model, case.tokenizer)
    (directory / _FILES.get(case.tokenizer, "sentencepiece.bpe.model")).write_bytes(model)
    if case.model == "bpe":
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
        tokens = sorted(pieces.id_to_piece(i) for i in range(3, pieces.vocab_size()))[:-20]  # some are unknown
        ids = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *tokens])}
        (directory / "vocab.json").write_text(json.dumps(ids))
    return directory


class Folder(NamedTuple):
    """A directory of transformers, what it holds, and what is loaded here."""

    path: Path
    case: Case
    theirs: Any
    tokenizer: Any
    ours: bundle.Bundle[Any]


@pytest.fixture(scope="module", params=CASES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    case = CASES[request.param]
    path = _classic(tmp_path_factory.mktemp("families") / request.param, case)
    config = getattr(transformers, f"{case.name}Config")(vocab_size=8, **case.sizes)
    (path / "config.json").write_text(json.dumps({"model_type": config.model_type}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    size = max(len(tokenizer), max(tokenizer.get_vocab().values()) + 1)
    if case.model == "bpe":
        size += len(tokenizer.lang_code_to_id) if len(tokenizer) < max(tokenizer.lang_code_to_id.values()) else 0
    config = getattr(transformers, f"{case.name}Config")(vocab_size=size + 5, **case.sizes)
    torch.manual_seed(3)
    theirs = getattr(transformers, f"{case.name}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if parameter.requires_grad and "embed_positions" not in name:
                parameter.add_(torch.randn_like(parameter) * (0.1 if "d_kv" in case.sizes else 0.3))
        theirs.get_input_embeddings().weight[config.eos_token_id] *= 3  # so that outputs end
        if hasattr(theirs, "final_logits_bias"):
            theirs.final_logits_bias.normal_()
    theirs.save_pretrained(path)
    yield Folder(path, case, theirs, tokenizer, bundle.load(path))


@pytest.mark.sampled(3)
def test_states_and_logits(folder: Folder, tmp_path: Path) -> None:
    """Of rows of unequal length, at once and token by token; and the weights survive the way out."""
    model, theirs = folder.ours.model, folder.theirs
    config = model.config
    source, mask = torch.randint(5, 60, (3, 40)), torch.arange(40)[None] < torch.tensor([40, 25, 12])[:, None]
    source[~mask] = config.pad
    target = torch.randint(5, 60, (3, 30))
    target[:, 0] = config.start_token
    with torch.inference_mode():
        out = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target)
        encoded = model.encoder_states(source, mask[:, None, None])[-1]
        hidden, _ = model(target, model.encode(source, mask))
        state = model.encode(source, mask, capacity=4)
        step, state = model(target[:, :3], state)
        steps = [step]
        for t in range(3, 30):
            step, state = model(target[:, t : t + 1], state)
            steps.append(step)
        logits = model.output.logits(hidden)
    # rounding grows with the logits: the smallest difference of a float32 of 8 is 1e-6
    size = max(1.0, float(out.logits.abs().max()))
    assert float((encoded - out.encoder_last_hidden_state)[mask].abs().max()) < 1e-5
    assert float((logits - out.logits[..., : logits.shape[-1]]).abs().max()) < 1e-5 * size
    assert float((model.output.logits(torch.cat(steps, 1)) - logits).abs().max()) < 1e-5 * size
    assert float(logits.std()) > 0.1
    data = directories.config_to_hf(folder.ours.arch, config)
    arch, again = directories.config_from_hf(json.loads(json.dumps(data)))
    written = directories.weights_to_hf(arch, model.state_dict(), config)
    back = directories.weights_from_hf(arch, written, model.state_dict(), config)
    assert again == config and all(torch.equal(back[name], tensor) for name, tensor in model.state_dict().items())
    before = load_file(folder.path / "model.safetensors")
    assert before.keys() <= written.keys() and written.keys() <= {*before, "lm_head.weight"}


@pytest.mark.sampled(3)
def test_ids_of_the_tokenizer(folder: Folder, tmp_path: Path) -> None:
    """From classic files, and from the files that transformers writes."""
    folder.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((folder.path / "config.json").read_text())
    for path in (folder.path, tmp_path):
        ours, _ = tokenizer_pairs.load_pair(path)
        config = folder.theirs.config.to_dict()
        marks = pair_format.read(path, config, ours, 0, folder.ours.eos).marks(*folder.case.languages)
        for text in TEXTS:
            if folder.case.tokenizer == "M2M100Tokenizer" and "<" in text:
                continue
            assert marks.source(ours.encode(text)) == folder.tokenizer(text).input_ids, text
        for text in LINES[:30]:
            ids = ours.encode(text)
            if ours.vocab is not None and ours.vocab.unk not in ids:
                assert ours.decode(ids) == folder.tokenizer.decode(ids, skip_special_tokens=True)


def _forced(folder: Folder) -> dict[str, int]:
    """The arguments of their `generate` for the language of the target, and the start token of a BART."""
    code = folder.case.languages[1]
    if folder.case.name == "Bart":
        return {"forced_bos_token_id": 0}
    if code is None:
        return {}
    token = folder.tokenizer.convert_tokens_to_ids(f"__{code}__" if folder.case.name == "M2M100" else code)
    start = folder.case.tokenizer == "MBartTokenizer"
    return {"decoder_start_token_id": token} if start else {"forced_bos_token_id": token}


SEARCHES = [
    {"beam": 0, "temperature": 0.0},
    {"beam": 4, "length_penalty": 0.6},
    {"beam": 3, "no_repeat_ngram": 2, "length_penalty": 2.0},
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("folder", "how"), each_value(CASES, SEARCHES), indirect=["folder"], ids=str)
def test_texts(folder: Folder, how: dict[str, Any]) -> None:
    translator = Translator([folder.ours], BACKEND)
    most, lines, beam = 12, LINES[:8], int(how.get("beam", 0)) or 1
    settings = Generate(**{"max_new_tokens": most, **how})
    options = Translate(source_lang=folder.case.languages[0], target_lang=folder.case.languages[1])
    found = translator.translate_batch(lines, settings, options)
    forced = _forced(folder)
    equal = 0
    for line, (ours,) in zip(lines, found, strict=True):
        with torch.inference_mode():
            (row,) = folder.theirs.generate(
                **folder.tokenizer(line, return_tensors="pt"),
                num_beams=beam,
                do_sample=False,
                max_new_tokens=most,
                length_penalty=settings.length_penalty,
                no_repeat_ngram_size=settings.no_repeat_ngram,
                bad_words_ids=[[token] for token in translator._never],
                **forced,
            )
        # transformers 5 takes the languages of an M2M-100 for text
        theirs = folder.tokenizer.decode(row, skip_special_tokens=True)
        assert ours.text == re.sub(r"^__\w+?__", "", theirs).strip()
        equal += 1
    assert equal == len(lines)


@pytest.mark.sampled(3)
def test_training_goes_on_and_is_written_as_it_was(folder: Folder, tmp_path: Path) -> None:
    """The loss of pairs is that of transformers, and a directory that is trained here opens there, with the languages."""
    pairs = list(zip(LINES[:6], LINES[6:12], strict=True))
    source, target = folder.case.languages
    options = Translate(source_lang=source, target_lang=target, score_target=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    settings = TrainSeq2Seq(
        tokenizer=str(folder.path), init=str(folder.path), source_lang=source, target_lang=target, dropout=0.0
    )
    run = PairTraining(output=str(tmp_path / "out"), steps=2, warmup=0, lr=1e-3, batch_tokens=200)
    train_seq2seq([str(tmp_path / "pairs.tsv")], settings, run)
    theirs, told = type(folder.theirs).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    again = bundle.load(tmp_path / "out")
    assert again.config["model_type"] == folder.ours.config["model_type"]
    assert any(not torch.equal(folder.ours.weights()[name], tensor) for name, tensor in again.weights().items())
    form = again.format
    assert form is not None and (form.source, form.target) == (source, target)
    translator, marks = Translator([again], BACKEND), form.marks()
    scores = translator.score_batch(pairs, options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for (a, b), score in zip(pairs, scores, strict=True):
        ids = again.tokenizer.encode(b)
        read = torch.tensor([[*marks.read, *ids]])
        with torch.inference_mode():
            out = theirs.eval()(**tokenizer(a, return_tensors="pt"), decoder_input_ids=read)
        logs = out.logits[0, len(marks.given) :].log_softmax(-1)
        wanted = logs.gather(1, torch.tensor([*ids, marks.eos])[:, None])[:, 0]
        assert torch.allclose(torch.tensor(score.logprobs), wanted, atol=1e-3)


@pytest.mark.sampled(3)
def test_vectors_are_means_of_the_encoder(folder: Folder) -> None:
    reader = loading.load(folder.path, settings=Embed(), precision="fp32")
    lines = [*LINES[:3], LINES[6] + " " + LINES[7]]
    found = reader.embed(lines)
    assert found.shape == (4, 32)
    for line, vector in zip(lines, found, strict=True):
        ids = folder.tokenizer(line, return_tensors="pt").input_ids
        with torch.inference_mode():
            (states,) = folder.theirs.get_encoder()(ids).last_hidden_state
        assert torch.allclose(torch.from_numpy(vector), states.mean(0), atol=1e-5)


def test_languages(tmp_path: Path) -> None:
    tokens = {"de": 7, "en": 8}
    form = pair_format.PairFormat("m", pair_format.PairMarks(2, 2), tokens, source="en")
    assert form.marks(None, "de") == pair_format.PairMarks(2, 2, (7,), (8,), (2,))
    with pytest.raises(UsageError, match=r"^m needs --target-lang: de, en$"):
        form.marks()
    with pytest.raises(UsageError, match=r"^--source-lang: m has no language dee \(did you mean de\? known: de, en\)$"):
        form.marks("dee", "de")
    with pytest.raises(UsageError, match=r"^--target-lang de: m has no tokens of languages$"):
        pair_format.PairFormat("m", pair_format.PairMarks(2, 2)).marks(None, "de")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "umt5"}, "models of the family 'umt5' are not supported; the nearest that is: 't5'"),
        ({"model_type": "t5", "feed_forward_proj": "gated-gelu-x"}, "feed_forward_proj 'gated-gelu-x'"),
        ({"model_type": "t5", "feed_forward_proj": "tanh"}, "activation 'tanh' is not supported"),
        ({"model_type": "t5", "relative_attention_num_buckets": 0}, "relative_attention_num_buckets is 0"),
        ({"model_type": "t5", "relative_attention_num_buckets": 30}, "30 buckets of distances up to 128"),
        ({"model_type": "bart", "architectures": ["BartForSequenceClassification"]}, "expected BartForConditional"),
        ({"model_type": "bart", "normalize_before": True}, "normalize_before True is not supported for bart"),
        ({"model_type": "mbart", "static_position_embeddings": True}, "static_position_embeddings True"),
        ({"model_type": "bart", "decoder_start_token_id": 99}, "start token of the decoder is 99"),
        ({"model_type": "bart", "vocab_size": None}, "no vocab_size"),
        (
            {"model_type": "m2m_100", "decoder_start_token_id": 1},
            "decoder_start_token_id is 1, expected a token besides",
        ),
        ({"model_type": "m2m_100", "decoder_start_token_id": None}, "decoder_start_token_id is None, expected"),
    ],
    ids=str,
)
def test_what_is_refused_is_named(config: dict[str, Any], said: str) -> None:
    sizes = _T5 if config["model_type"].endswith("t5") else _BART
    pad = 0 if sizes is _T5 else 1
    with pytest.raises(BundleError) as raised:
        directories.config_from_hf({"vocab_size": 50, "eos_token_id": 2, "pad_token_id": pad, **sizes, **config})
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.sampled(3)
@pytest.mark.skipif(not int8.available(), reason="no products in 8 bits for this processor")
@torch.inference_mode()
def test_eight_bits_change_logits_little(folder: Folder) -> None:
    plain, rounded = (
        loading.load(folder.path, use=uses.TRANSLATE, compute=Compute(device="cpu", precision="fp32")) for _ in range(2)
    )
    quantize(rounded, "int8")
    source = torch.randint(5, 60, (1, 20))
    found = []
    for model in (plain.model, rounded.model):
        hidden, _ = model(torch.tensor([[model.start_token, 7, 9]]), model.encode(source))
        found.append(model.output.logits(hidden)[..., 3:60])
    difference = (found[1] - found[0]).abs().mean()
    assert 0 < float(difference) < 0.25 * float(found[0].std())
