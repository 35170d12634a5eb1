"""Bars of the weights that tasks give to the layers of a model.

Peters et al. 2018, "Deep contextualized word representations" (arXiv:1802.05365, figure 2), show the same as colors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nlptools.configs.layers import MIX_FILES, Mix, read_mix
from nlptools.errors import DataError, InputError, display
from nlptools.files import run_paths
from nlptools.plots import figures
from nlptools.plots.curves import distinct_names

WIDTH, HEIGHT = 7.0, 2.8  # in inches


def read(paths: Sequence[str]) -> dict[str, Mix]:
    """The mixes in files and directories, by names that distinguish them.

    Raises:
        InputError: no such file, or a directory without a mix.
        DataError: a file is not a mix, or the mixes have different numbers of layers.
    """
    found: dict[str, Mix] = {}
    for path, name in zip(paths, distinct_names(paths), strict=True):
        run_paths.restore(path)
        if Path(path).is_dir():
            files = [file for file in MIX_FILES.values() if (Path(path) / file).is_file()]
            if not files:
                raise InputError(
                    f"{display(path)}: no {' or '.join(MIX_FILES.values())} in this directory",
                    hint="finetune --layers mix, or --features with an ELMo, learns weights of layers",
                )
            found |= {
                name if len(files) == 1 else f"{name}, {Path(file).stem}": read_mix(str(Path(path) / file))
                for file in files
            }
        else:
            found[name] = read_mix(path)
    counts = {name: len(mix.numbers) for name, mix in found.items()}
    if len({*counts.values()}) > 1:
        raise DataError(
            f"these models have different numbers of layers: {', '.join(f'{name} {n}' for name, n in counts.items())}"
        )
    return found


def picture(mixes: dict[str, Mix], suffix: str, width: float = 0.0) -> bytes:
    """A file of type `suffix` (".png", ".svg", ".pdf"), in which each layer has a bar for each mix.

    A bar is the share of the layer, softmax(s); gamma is in the legend. Plain weights are drawn without softmax.
    """
    with figures.style(suffix):
        figure = figures.new_figure(width or WIDTH, HEIGHT)
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        bar = 0.8 / len(mixes)
        for number, (name, mix) in enumerate(mixes.items()):
            shares = [weight / (mix.gamma or 1.0) for weight in mix.weights]
            label = figures.label(name, 40) + ("" if mix.gamma is None else f" (gamma {mix.gamma:.3g})")
            places = [layer - 0.4 + bar * (number + 0.5) for layer in range(len(shares))]
            axes.bar(places, shares, bar * 0.92, color=f"C{number % 10}", label=label)
        layers = range(len(shares))
        axes.set_xticks(layers, ["embeddings" if layer == 0 else str(layer) for layer in layers])
        axes.set(xlabel="layer", ylabel="weight")
        axes.axhline(0, color=figures.LINE, linewidth=0.8, zorder=0)
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
        axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), ncols=min(3, len(mixes)))
        return figures.saved(figure, suffix)
