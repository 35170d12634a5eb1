"""Settings in generation_config.json, which are not applied: one note names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from tiny_bundles import bytes_bundle

from nlptools.configs import Compute
from nlptools.configs.serve import Serve
from nlptools.serving.service import Service

SHORT = ("--max-new-tokens", 3)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = bytes_bundle(tmp_path / "lm", max_position_embeddings=128)
    (path / "manifest.json").unlink()
    return path


def written(model: Path, **settings: Any) -> None:
    (model / "generation_config.json").write_text(json.dumps(settings))


def notes(call: Run, model: Path, *options: object) -> str:
    done = call("generate", model, *SHORT, *options, stdin="a\nb\n")
    assert done.code == 0 and len(done.lines) == 2
    return done.err.removesuffix("\n").removeprefix(f"{model}/generation_config.json: not applied: ")


def test_a_note_names_what_would_change_the_text(call: Run, model: Path) -> None:
    everything = {
        "repetition_penalty": 1.5,
        "temperature": 0.6,
        "top_k": 20,
        "typical_p": 0.9,
        "no_repeat_ngram_size": 3,
        "penalty_alpha": 0.5,
        "max_new_tokens": 8,
        "stop_strings": ["x", "y"],
        "suppress_tokens": [3],
        "encoder_repetition_penalty": 1.2,
    }
    written(model, eos_token_id=[0, 1], bos_token_id=0, transformers_version="5", use_cache=True, **everything)
    said = notes(call, model)
    assert said.count("\n") == 0 and all(key in said for key in everything if key != "max_new_tokens")
    assert "eos" not in said and "version" not in said and "max_new_tokens" not in said, "which --max-new-tokens sets"
    assert said.endswith(
        "; to apply: --repetition-penalty 1.5 --temperature 0.6 --top-k 20 --typical 0.9 --no-repeat-ngram 3"
        " --contrastive 0.5 --stop x,y"
    )
    assert notes(call, model, "-q") == ""


def test_what_the_user_chooses_or_has_anyway_needs_no_note(call: Run, model: Path) -> None:
    neutral = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "repetition_penalty": 1.0,
        "num_beams": 1,
        "do_sample": True,
    }
    written(model, **neutral, early_stopping=False, length_penalty=2.0, bad_words_ids=None, guidance_scale=1.0)
    assert notes(call, model) == ""
    written(model, repetition_penalty=1.5, top_p=0.9)
    assert notes(call, model, "--repetition-penalty", 1.2) == "top_p 0.9; to apply: --top-p 0.9"
    assert notes(call, model, "--temperature", 0).startswith("repetition_penalty 1.5; to apply")
    written(model, do_sample=False)
    assert notes(call, model) == "do_sample false; to apply: --temperature 0"
    for chosen in (("--temperature", 0), ("--temperature", 0.5), ("--beam", 2), ("--top-k", 3)):
        assert notes(call, model, *chosen) == ""
    written(model, num_beams=4, length_penalty=0.6)
    assert notes(call, model) == "num_beams 4; to apply: --beam 4"
    assert notes(call, model, "--beam", 4) == "length_penalty 0.6; to apply: --length-penalty 0.6"


def test_values_that_are_none_and_foreign_keys(call: Run, model: Path) -> None:
    written(model, **{"top_k": "many", "a\x1b[31mb": 1, "stop_strings": ["x y"]})
    assert notes(call, model) == 'top_k "many", a\\x1b[31mb 1, stop_strings ["x y"]; to apply: --stop \'x y\''
    for broken in ("[]", "{", '{"top_k": NaN}'):
        (model / "generation_config.json").write_text(broken)
        done = call("generate", model, *SHORT, stdin="a\n")
        assert done.code == 78 and "generation_config.json" in done.err


def test_the_options_of_the_note_silence_it(call: Run, model: Path) -> None:
    written(model, repetition_penalty=1.5, top_k=20, temperature=0.6, min_p=0.1)
    flags = notes(call, model).partition("; to apply: ")[2].split()
    assert len(flags) == 8 and notes(call, model, *flags) == ""


def test_chat_and_serve_say_it_too(call: Run, model: Path, capfd: Any) -> None:
    written(model, repetition_penalty=1.5, temperature=0.7)
    done = call("chat", model, "--chat", "chatml", *SHORT, stdin='{"content": "a"}\n')
    assert (
        done.err
        == f"{model}/generation_config.json: not applied: repetition_penalty 1.5; to apply: --repetition-penalty 1.5\n"
    )
    Service.open(str(model), Serve(), Compute(precision="fp32", threads=1, device="cpu"))
    assert capfd.readouterr().err == (
        f"{model}/generation_config.json: not applied: repetition_penalty 1.5, temperature 0.7;"
        " a request may set repetition_penalty, temperature\n"
    )


def test_help_says_it(call: Run) -> None:
    assert "generation_config.json" in call("generate", "--help").text
