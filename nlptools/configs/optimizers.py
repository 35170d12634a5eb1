"""The optimizers of `--optimizer`: one row each, with the names of classes that are imported on use.

A new optimizer is one file in `training/engine/`, with a class that has `from_options`, and one row here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class OptimizerRow:
    """An optimizer that `--optimizer` offers.

    Attributes:
        name: the value of `--optimizer`.
        optimizer: "module:Class"; the class implements `training.engine.optimizers.FromOptions`.
        help: what the optimizer does, for the help of `--optimizer`.
        averages: whether it averages the weights itself, when validations no longer improve. It then requires `--valid`
            and excludes `--average`.
        large_rates: whether learning rates of 1 and more are usual: `--lr` times `--weight-decay` is then checked.
    """

    name: str
    optimizer: str
    help: str
    averages: bool = False
    large_rates: bool = False


_ENGINE = "nlptools.training.engine"

OPTIMIZERS = {
    row.name: row
    for row in (
        OptimizerRow(
            "adamw", f"{_ENGINE}.optimizers:AdamW", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)"
        ),
        OptimizerRow(
            "muon",
            f"{_ENGINE}.muon:Muon",
            "orthogonalized momentum for the matrices of hidden layers, AdamW for the other weights, both with the same"
            " --lr (Jordan et al. 2024)",
        ),
        OptimizerRow("sgd", f"{_ENGINE}.sgd:SGD", "gradient descent without momentum", large_rates=True),
        OptimizerRow(
            "asgd",
            f"{_ENGINE}.sgd:AveragedSGD",
            "sgd that averages the weights once the validation score stops improving (NT-ASGD, Merity et al. 2018)",
            averages=True,
            large_rates=True,
        ),
    )
}
AVERAGING = tuple(row.name for row in OPTIMIZERS.values() if row.averages)


def optimizers_help(names: Iterable[str]) -> str:
    """The help of an `--optimizer` that offers these."""
    return "Optimizer. " + "; ".join(f"{name}: {OPTIMIZERS[name].help}" for name in names) + "."
