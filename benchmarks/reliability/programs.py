"""The programs of the other packages: each does a job as the documentation of its package shows it, and returns what it made.

Those that read return {"rows": number of lines, "digest": of the result}, as far as the package tells. None checks a file itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path
from typing import Any

WORDS = ["<pad>", "<unk>", "</s>", *(f"w{i}" for i in range(120))]
QUESTION = "w1 w2 w3"  # the text that models get
RATE = 1e12  # a learning rate with which every training diverges
PAUSE = 0.03  # seconds after each step of a training that will be stopped
Result = dict[str, Any]


def digest(*parts: Any) -> str:
    """A digest of bytes, arrays and texts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(
            part.encode("utf-8", "surrogatepass") if isinstance(part, str) else bytes(memoryview(part).cast("B"))
        )
    return total.hexdigest()[:16]


def numbers(array: Any) -> Result:
    """The digest of an array, and whether its numbers are finite."""
    import numpy

    array = numpy.ascontiguousarray(array, dtype=numpy.float32)
    return {"digest": digest(array), "finite": bool(numpy.isfinite(array).all())}


# -- sacrebleu --------------------------------------------------------------------------------------------------------


def sacrebleu_text(file: str) -> None:
    from sacrebleu import sacrebleu

    sys.argv = ["sacrebleu", "reference.txt", "-i", file, "--score-only", "--width", "6"]
    sacrebleu.main()


# -- gensim -----------------------------------------------------------------------------------------------------------


def _gensim_trained(file: str, seed: int = 1, size: int = 8, **settings: Any) -> Any:
    from gensim.models import Word2Vec
    from gensim.models.word2vec import LineSentence

    return Word2Vec(LineSentence(file), vector_size=size, min_count=1, workers=1, seed=seed, **settings)


def gensim_text(file: str) -> Result:
    model = _gensim_trained(file, epochs=2)
    words = [f"{word} {model.wv.get_vecattr(word, 'count')}\n" for word in sorted(model.wv.index_to_key)]
    return {"rows": model.corpus_count, "digest": digest(model.wv.vectors, *words)}


def gensim_vectors(file: str) -> Result:
    from gensim.models import KeyedVectors

    vectors = KeyedVectors.load_word2vec_format(file)
    return {"rows": len(vectors), **numbers(vectors.vectors)}


def gensim_model(file: str) -> Result:
    from gensim.models import Word2Vec

    return numbers(Word2Vec.load(f"{file}/model").wv.vectors)


def gensim_make(file: str, seed: int = 1, size: int = 8) -> None:
    Path(file).mkdir(exist_ok=True)
    _gensim_trained("text.txt", seed, size, epochs=2).save(f"{file}/model", sep_limit=0)


gensim_save = gensim_make


def gensim_train(seed: int = 1, size: int = 8, diverge: bool = False, workers: int = 1, again: bool = False) -> None:
    from gensim.models.callbacks import CallbackAny2Vec

    class Steps(CallbackAny2Vec):  # type: ignore[misc]
        def on_epoch_end(self, model: Any) -> None:
            Path("middle").touch()
            time.sleep(PAUSE)

    Path("out").mkdir(exist_ok=True)
    rate = {"alpha": RATE} if diverge else {}
    model = _gensim_trained("text.txt", seed, size, epochs=24, callbacks=[Steps()], **rate)
    model.save("out/model", sep_limit=0)


def gensim_verify() -> Result:
    return gensim_model("out")


# -- fastText ---------------------------------------------------------------------------------------------------------


def _fasttext_trained(file: str, seed: int = 1, size: int = 8, epochs: int = 2, rate: float = 0.05) -> Any:
    import fasttext

    # it takes no seed: other results come from another number of epochs
    settings = {"dim": size, "minCount": 1, "thread": 1, "bucket": 100, "epoch": epochs + seed - 1, "verbose": 0}
    return fasttext.train_unsupervised(file, lr=rate, **settings)


def fasttext_text(file: str) -> Result:
    model = _fasttext_trained(file)
    words, counts = model.get_words(include_freq=True, on_unicode_error="replace")
    known = dict(zip(words, map(int, counts)))
    # the dictionary counts ends of lines as a word
    return {"rows": known.get("</s>", 0), "digest": digest(model.get_input_matrix(), str(sorted(known.items())))}


def fasttext_vectors(file: str) -> Result:
    import fasttext

    Path("labels.txt").write_text("__label__a w1 w2\n__label__b w2\n" * 4)
    settings = {"dim": 4, "minCount": 1, "thread": 1, "epoch": 1, "lr": 1e-9, "verbose": 0}
    return numbers(fasttext.train_supervised("labels.txt", pretrainedVectors=file, **settings).get_input_matrix())


def fasttext_model(file: str) -> Result:
    import fasttext
    import numpy

    model = fasttext.load_model(f"{file}/model.bin")
    return numbers(numpy.concatenate([model.get_input_matrix(), model.get_output_matrix()]))


def fasttext_make(file: str, seed: int = 1, size: int = 8) -> None:
    Path(file).mkdir(exist_ok=True)
    _fasttext_trained("text.txt", seed, size).save_model(f"{file}/model.bin")


fasttext_save = fasttext_make


def fasttext_train(seed: int = 1, size: int = 8, diverge: bool = False, workers: int = 1, again: bool = False) -> None:
    Path("out").mkdir(exist_ok=True)
    Path("middle").touch()
    model = _fasttext_trained("text.txt", seed, size, 300, RATE if diverge else 0.05)
    model.save_model("out/model.bin")


def fasttext_verify() -> Result:
    return fasttext_model("out")


# -- transformers -----------------------------------------------------------------------------------------------------


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


def _gpt2(seed: int = 1, size: int = 8, **settings: Any) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(WORDS), n_positions=32, n_embd=size, n_layer=1, n_head=2, eos_token_id=2, bos_token_id=2
        )
    )


def _read(kind: str, file: str) -> list[str]:
    """The rows of a file, as the documentation of transformers and sentence-transformers reads training data."""
    import datasets

    datasets.disable_progress_bars()
    rows = datasets.load_dataset(kind, data_files=file, split="train", cache_dir=os.path.abspath("cache"))
    return list(rows["text"])


def _blocks(rows: list[str]) -> list[Result]:
    """As the example run_clm.py: all rows one after the other, in blocks of 8 tokens."""
    tokenizer = _tokenizer()
    ids = [i for row in rows for i in [*tokenizer(row)["input_ids"], 2]]
    return [{"input_ids": ids[i : i + 8], "labels": ids[i : i + 8]} for i in range(0, len(ids) - 7, 8)]


def _trained(rows: list[str], **settings: Any) -> Any:
    from transformers import Trainer, TrainingArguments

    quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "per_device_train_batch_size": 2}
    seed, size, again = settings.pop("seed", 1), settings.pop("size", 8), settings.pop("again", None)
    callbacks = settings.pop("callbacks", [])
    arguments = TrainingArguments("out", seed=seed, **{**quiet, "save_strategy": "no", **settings})
    trainer = Trainer(_gpt2(seed, size), arguments, train_dataset=_blocks(rows), callbacks=callbacks)
    trainer.train(resume_from_checkpoint=again)
    return trainer


def _weights(model: Any) -> Result:
    import numpy

    return numbers(numpy.concatenate([each.detach().numpy().ravel() for each in model.state_dict().values()]))


def trainer_text(file: str, kind: str = "text") -> Result:
    rows = _read(kind, file)
    return {"rows": len(rows), **_weights(_trained(rows, max_steps=2).model)}


def trainer_lines(file: str) -> Result:
    return trainer_text(file, "json")


def transformers_make(file: str, seed: int = 1, size: int = 8) -> None:
    _gpt2(seed, size).save_pretrained(file)
    _tokenizer().save_pretrained(file)


transformers_save = transformers_make


def transformers_model(file: str) -> Result:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(file)(QUESTION)["input_ids"]
    return {**_weights(AutoModelForCausalLM.from_pretrained(file)), "ids": ids}


def trainer_train(seed: int = 1, size: int = 8, diverge: bool = False, workers: int = 0, again: bool = False) -> None:
    from transformers import TrainerCallback

    class Steps(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, arguments: Any, state: Any, *_: Any, **__: Any) -> None:
            if state.global_step >= 5:
                Path("middle").touch()
            time.sleep(PAUSE)

    settings: Result = {"max_steps": 12, "save_strategy": "steps", "save_steps": 2, "save_total_limit": 2}
    settings |= {"learning_rate": RATE, "max_grad_norm": 0.0} if diverge else {"learning_rate": 1e-3}
    settings |= {"dataloader_num_workers": workers} if workers else {}
    rows = Path("text.txt").read_text().split("\n")
    _trained(rows, seed=seed, size=size, again=again or None, callbacks=[Steps()], **settings).save_model("out/final")


def trainer_verify() -> Result:
    from transformers import AutoModelForCausalLM

    return _weights(AutoModelForCausalLM.from_pretrained("out/final"))


def transformers_verify() -> Result:
    return transformers_model("out")


# -- sentence-transformers --------------------------------------------------------------------------------------------


def sentences_make(file: str, seed: int = 1, size: int = 8) -> None:
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    sizes = {"hidden_size": size, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": size}
    base = f"base{seed}"
    if not Path(base).exists():
        BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)).save_pretrained(base)
        tokenizer = _tokenizer()
        tokenizer.model_max_length = 32
        tokenizer.save_pretrained(base)
    word = models.Transformer(base, max_seq_length=32)
    SentenceTransformer(modules=[word, models.Pooling(size)], device="cpu").save(file)


sentences_save = sentences_make


def _encoder(file: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(file, device="cpu")


def sentences_text(file: str, kind: str = "text") -> Result:
    rows = _read(kind, file)
    vectors = _encoder("model").encode(rows, batch_size=8, show_progress_bar=False)
    return {"rows": len(vectors), **numbers(vectors)}


def sentences_lines(file: str) -> Result:
    return sentences_text(file, "json")


def sentences_model(file: str) -> Result:
    encoder = _encoder(file)
    vectors = encoder.encode([QUESTION], show_progress_bar=False)
    return {**_weights(encoder), "vectors": digest(vectors)}


def sentences_verify() -> Result:
    return sentences_model("out")


def sentences_written(file: str) -> None:
    """Vectors of lines on stdout, a line each."""
    rows = Path(file).read_text().removesuffix("\n").split("\n")
    for vector in _encoder("model").encode(rows, batch_size=8, show_progress_bar=False):
        print(*vector)
