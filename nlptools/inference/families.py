"""The families of published models that open here, and the commands that take them: a table made from the registry."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.inference import uses
from nlptools.models import registry

_ROWS = {  # a family of the registry: its name in the table, and the rows of `uses.TABLE` that its models may have
    registry.ENCODER: ("encoder", (uses.MASKED_ENCODER, uses.SENTENCES, uses.FINE_TUNED)),
    registry.LANGUAGE: ("decoder", (registry.LANGUAGE, registry.TASK_DECODER)),
    registry.ENCODER_DECODER: ("encoder-decoder", (registry.ENCODER_DECODER,)),
}
_FILLING = {uses.FILL.name, uses.MASKED.name}
_NOTES = """
The type of a model is "model_type" in its config.json. `predict` takes models that `finetune` wrote, or published ones with a
head of a task. `embed` also takes sentence-transformers folders of encoders and decoders, with their poolings, prompts and
dense layers. Of a T5 or mT5, the encoder alone (T5EncoderModel) opens as an encoder. The column GGUF names the architecture in
files for llama.cpp, which `convert` writes; a gemma3_text that reads in both directions is a gemma-embedding there.
"""


@dataclass(frozen=True)
class PublishedFamily:
    """A row of the table.

    Attributes:
        model_type: in config.json.
        kind: encoder, decoder or encoder-decoder.
        commands: that take its models.
        gguf: the name of its architecture in GGUF files; "": it has none.
    """

    model_type: str
    kind: str
    commands: tuple[str, ...]
    gguf: str


def families() -> list[PublishedFamily]:
    """The table, in the order of the registry, encoders first. Imports PyTorch."""
    from nlptools.models.huggingface import directories, gguf_layouts

    out = []
    for family, (kind, rows) in _ROWS.items():
        commands = _commands(rows)
        for name in registry.names(family):
            types = directories.model_types(name)
            filling = types if family == registry.LANGUAGE else directories.filling_types(name)
            for each in types:
                taken = tuple(command for command in commands if each in filling or command not in _FILLING)
                paired = family == registry.ENCODER_DECODER
                out.append(PublishedFamily(each, kind, taken, "" if paired else gguf_layouts.arch_of(each)))
    return out


def _commands(rows: tuple[str, ...]) -> tuple[str, ...]:
    """The commands that take models of these rows, in the order of the alphabet."""
    served = [use.name for row in rows for use in uses.TABLE[row].served if use.suggested or use == uses.CONTINUE]
    also = [name for row in rows for name in uses.TABLE[row].also]
    names = {name for each in (*served, *also) for name in each.split(" and ")}  # "chat and serve"
    # a command with an option is named where it does not work without it
    return tuple(sorted(name for name in names if name.partition(" --")[0] not in names - {name}))


def shown() -> str:
    """The table as `help models` shows it."""
    table = [("type", "kind", "GGUF", "commands")]
    table += [(row.model_type, row.kind, row.gguf or "-", ", ".join(row.commands)) for row in families()]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in table
    ]
    return "\n".join(lines) + "\n" + _NOTES.rstrip("\n")
