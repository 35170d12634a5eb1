"""Several runs of one task, with different seeds or cross-validation folds; the best is kept.

Dodge et al. 2020 (arXiv:2002.06305) and Mosbach et al. 2021 (arXiv:2006.04884): results of fine-tuning differ from seed to
seed and some runs fail, which a single number hides.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from nlptools import messages
from nlptools.configs import Compute
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.errors import OutputError, UsageError, display
from nlptools.files import artifacts, atomic
from nlptools.files.json_fields import child
from nlptools.metrics.criterion import Criterion
from nlptools.training.engine import run_directory
from nlptools.training.engine.job import Trained


def several(
    one: Callable[..., Trained],
    settings: Finetune,
    run: FinetuneTraining,
    compute: Compute,
    chosen: Callable[[], Criterion],
) -> Trained:
    """Call `one(run, compute, fold)` for each seed or each fold, in subdirectories of `run.output`.

    Finished runs are not repeated. `chosen()` gives, afterwards, the criterion for the best run.

    Raises:
        UsageError: no held-out examples for --seeds.
        OutputError: the directory has other contents.
        The errors of `one`.
    """
    if not settings.folds and not run.held_out:
        raise UsageError("--seeds needs --valid, to choose the best model")
    directory = Path(run.output)
    if (
        (directory / run_directory.RECORD).exists()
        and not run.force
        and "repeats" not in artifacts.read_json(directory / run_directory.RECORD)
    ):
        raise OutputError(f"{display(run.output)}: contains a single run", hint="--force replaces it")
    if run.dry_run:
        return one(run, compute, (0, settings.folds) if settings.folds else None)
    runs: dict[str, tuple[Compute, tuple[int, int] | None]]
    if settings.folds:
        runs = {f"fold-{number + 1}": (compute, (number, settings.folds)) for number in range(settings.folds)}
    else:
        seeds = range(compute.seed, compute.seed + settings.seeds)
        runs = {f"seed-{seed}": (replace(compute, seed=seed), None) for seed in seeds}
    done = {name: one(replace(run, output=str(directory / name)), *varied) for name, varied in runs.items()}
    return _summed_up(directory, done, chosen())


def _summed_up(directory: Path, done: dict[str, Trained], criterion: Criterion) -> Trained:
    """Report the results of the runs, and keep the best."""
    values = {name: trained.measures[criterion.name] for name, trained in done.items()}
    best = (max if criterion.higher_is_better else min)(values, key=lambda name: values[name])
    numbers = list(values.values())
    mean, spread = statistics.fmean(numbers), statistics.stdev(numbers)
    failed = [name for name in values if _has_failed(directory / name)]
    for name in failed:
        messages.warn(
            f"{name} failed: its predictions are all the same ({criterion.name} {values[name]:.4f});"
            " a smaller --lr or a longer --warmup helps"
        )
    summary = {
        "criterion": criterion.name,
        "mean": mean,
        "standard_deviation": spread,
        "failed": failed,
        "runs": {name: trained.metrics for name, trained in done.items()},
        "best": best,
    }
    _keep(directory, directory / best, summary)
    values_text = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
    messages.note(f"{criterion.name}: mean {mean:.4f}, standard deviation {spread:.4f} ({values_text})")
    messages.note(f"{display(str(directory))}: the model of {best}")
    return replace(done[best], directory=directory, metrics={**done[best].metrics, "repeats": summary})


def _has_failed(directory: Path) -> bool:
    """Whether the model of a run makes the same prediction for all held-out examples, by its record."""
    record = artifacts.read_json(directory / run_directory.RECORD)
    return child(record, "metrics", run_directory.RECORD).get("valid_answers") == 1


def _keep(directory: Path, best: Path, summary: Mapping[str, object]) -> None:
    """Copy the bundle `best` into `directory`, with the results of all runs in its training record; the manifest last."""
    names = list(artifacts.manifest_files(best))
    for name in names:
        if name == run_directory.RECORD:
            continue
        atomic.copy_whole(best / name, directory / name)
    record = artifacts.read_json(best / run_directory.RECORD)
    artifacts.write_json(directory / run_directory.RECORD, {**record, "repeats": summary})
    artifacts.write_manifest(directory, names)
