"""The page of figures, the records that it is made of, and the scripts that make them."""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, this_month

FOLDER = ROOT / "benchmarks"
sys.path.insert(0, str(FOLDER))

import cluster_costs  # noqa: E402
import jobs  # noqa: E402
import page  # noqa: E402
import process_trees  # noqa: E402
import records  # noqa: E402
import samples  # noqa: E402
import scaling_filters  # noqa: E402
import scaling_page  # noqa: E402
import side_by_side  # noqa: E402

from nlptools.cli import COMMANDS  # noqa: E402
from nlptools.configs import LineOutput  # noqa: E402


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_the_page_shows_the_results() -> None:
    shown = page.unmarked(page.PAGE.read_text(encoding="utf-8"))
    assert shown == page.unmarked(page.render()), "stale: run benchmarks/run --render"
    shown = page.unmarked(scaling_page.PAGE.read_text(encoding="utf-8"))
    assert shown == page.unmarked(page.scaling()), "stale: run benchmarks/run --render"
    readme = page.unmarked(page.README.read_text(encoding="utf-8"))
    assert readme == page.unmarked(page.with_speeds(readme)), "stale: run benchmarks/run --render"


def test_a_record_older_than_a_change_is_marked() -> None:
    place = {"processor": "AMD", "units": "AMX", "cores": 2, "unit": "s", "job": "x"}
    row = place | {"sides": {"nlptools": 2.0}, "ratios": {}}
    assert page.cell("nlptools", row) == "2.0" and page.cell("nlptools", row | {"old": True}) == f"2.0 {page.OLD}"
    assert page.unmarked(page.cell("nlptools", row | {"old": True})) == "2.0"
    shown = page.render(lambda script, row: True)
    assert shown != page.unmarked(shown) == page.unmarked(page.render())
    assert page.changed("bleu_speed", {"commit": "?", "date": "2000-01-01"})
    assert not page.changed("bleu_speed", {"commit": "HEAD", "date": "2000-01-01"})


def test_a_line_of_the_first_table_compares_the_best_settings_of_both_sides() -> None:
    row = {"job": "x", "ratios": {"tool, fp32": 4.0, "tool, bf16": 2.5, "another": 1.0}}
    assert page.least(row, "tool") == 2.5 and page.least(row, "none") is None
    assert page.span([12.3, 0.812, 2.44]) == "0.81 to 12" and page.span([2.5]) == "2.5" and page.span([]) == ""
    assert 0 < sum(job.readme for job in page.JOBS) <= 8


def test_records_say_where_they_come_from() -> None:
    for path in sorted((FOLDER / "results").glob("*.jsonl")):
        assert path.stem in jobs.SCRIPTS
        for row in rows(path):
            assert row["date"] and row["commit"] and row["sides"] and row["processor"] and row["versions"]
            without = row["unit"] in records.NO_RATIOS
            assert row["ratios"] == ({} if without else records.ratios(row["sides"], row.get("less", False)))


def test_the_table_of_scripts_is_complete() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text(encoding="utf-8")}
    assert scripts == {*jobs.SCRIPTS, "two_checkouts"}
    for script in jobs.SCRIPTS.values():
        assert all((ROOT / "nlptools" / folder).exists() for folder in script.measures.split()), script.measures
    assert all(job.script in jobs.SCRIPTS for job in jobs.JOBS)


def test_every_script_answers_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (*jobs.SCRIPTS, "two_checkouts"):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(name).main()
        assert ended.value.code == 0 and page.title(name).split()[0] in capsys.readouterr().out


TOY = [name for name, script in jobs.SCRIPTS.items() if script.gpu]


@pytest.mark.filterwarnings("ignore")
def test_scripts_for_a_gpu_run_at_toy_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All sides in this process; the encoder of `embedding_speed` is one with random weights."""
    samples, translation = (importlib.import_module(name) for name in ("samples", "translation"))
    monkeypatch.setattr(translation, "PAIRS", 100)
    text = tmp_path / "text"
    text.write_text("a few words of a text\n" * 20)
    monkeypatch.setattr(samples, "minilm", lambda: str(samples.bert(tmp_path / "bert", text, 1, 64, 40)))
    monkeypatch.delenv("NLPTOOLS_DATA", raising=False)
    monkeypatch.setenv(records.OUTPUT, str(tmp_path / "records"))
    for name in this_month(TOY, 1):
        options = jobs.SCRIPTS[name].toy.replace("steady,process,runtimes", "steady").split()
        monkeypatch.setattr(sys, "argv", [name, *options, "--rounds", "1", "--threads", "1", "--within"])
        importlib.import_module(name).main()
        found = rows(tmp_path / "records")
        assert all(min(row["sides"].values()) > 0 for row in found) and "nlptools" in str(found[-1]["sides"])
        assert all("100%" in row.get("check", "100%") for row in found if "generation" in row["job"])


def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> side_by_side.Bench:
    monkeypatch.setattr(sys, "argv", ["script", "--keep", str(tmp_path), *options])
    with side_by_side.bench(None, "more*", parts=("a", "b")) as run:
        return run


def test_compare_records_what_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "machine", str)
    for name in (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "TQDM_DISABLE",
        "TRL_EXPERIMENTAL_SILENCE",
    ):
        monkeypatch.setenv(name, "1")
    speeds = {"theirs": iter([9.0, 2.0, 1.0, 3.0]), "nlptools, fp32": iter([9.0, 4.0, 5.0, 3.0])}
    sides = {
        name: (lambda values=values, name=name: (side_by_side.Speed(next(values)), name))
        for name, values in speeds.items()
    }
    monkeypatch.setenv(records.OUTPUT, str(tmp_path / "job.jsonl"))
    run = bench(tmp_path, monkeypatch)
    measured = run.compare("a job", "lines/s", sides, check=" ".join)
    assert measured == {"theirs": 2.0, "nlptools, fp32": 4.0}
    [row] = rows(tmp_path / "job.jsonl")
    assert row["sides"] == {"theirs": 2.0, "nlptools, fp32": 4.0} and row["ratios"] == {"theirs": 2.0}
    assert row["ranges"] == {"theirs": [1.0, 3.0], "nlptools, fp32": [3.0, 5.0]} and row["rounds"] == 3
    assert row["check"] == "theirs nlptools, fp32"
    assert row["units"] in (*records.UNITS, records.NEITHER) and row["versions"]["python"]
    monkeypatch.delenv(records.OUTPUT)
    run.compare("another job", "lines/s", {"nlptools": lambda: 1.0})
    assert len(rows(tmp_path / "job.jsonl")) == 1


def test_sides_are_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(side_by_side, "machine", str)
    run, out = bench(tmp_path, monkeypatch, "--rounds", "1", "--threads", "1"), tmp_path / "out"
    script = "import os, sys; sys.stdout.write(os.environ['OMP_NUM_THREADS'] + sys.stdin.read()); sys.exit(len(sys.argv) - 1)"
    given = tmp_path / "given"
    given.write_text(" text")
    command = side_by_side.Command([sys.executable, "-S", "-c", script], 10, given, out)
    results: dict[str, str] = {}
    sides = {"whole": command, "separate": side_by_side.separate(length_of, "four")}
    run.compare("a job", "lines/s", sides, memory=True, check=lambda found: results.update(found) or "")
    assert results == {"whole": "1 text", "separate": "four"}
    assert "memory of a job" in capfd.readouterr().out
    wrong = side_by_side.Command([*command.words, "1"])
    with pytest.raises(SystemExit, match="failed"):
        run.compare("a job", "lines/s", {"whole": wrong})
    with pytest.raises(SystemExit):
        bench(tmp_path, monkeypatch, "--parts", "a,c")
    assert "unknown c, expected a, b" in capfd.readouterr().err
    assert bench(tmp_path, monkeypatch, "--parts", "b").options.parts == ["b"]


def test_a_round_of_steps_lasts_as_long_as_asked() -> None:
    assert side_by_side.in_steps(lambda: 3.0, 0)() == 3
    done = side_by_side.in_steps(lambda: time.sleep(0.002) or 1, 0.05)()
    assert 1 < done <= 25


def length_of(text: str) -> side_by_side.Job:
    return lambda: (len(text), text)


def test_a_table_has_the_last_figure_of_each_processor() -> None:
    def row(processor: str, sides: dict[str, float], **more: object) -> dict:
        place = {"processor": processor, "units": "AMX", "unit": "s", "commit": "c0"}
        return place | {"job": "x", "sides": sides, "ratios": records.ratios(sides, less=True)} | more

    old = row("Intel(R) Xeon(R)", {"theirs": 8.0, "nlptools": 4.0}, old=True, check="the same")
    shown = page.table("x", [old, row("AMD", {"theirs": 3.0}), row("Intel Xeon", {"nlptools": 2000.4}, commit="c1")])
    assert shown.split("\n")[2:] == [
        "| s | Intel, AMX, c0, c1 | times | AMD, AMX, c0 |",
        "|---|---|---|---|",
        f"| theirs | 8.0 {page.OLD} | 2 | 3.0 |",
        "| **nlptools** | 2,000 |  |  |",
        "",
        "The same.",
        "",
    ]


def test_a_job_in_several_units_has_a_column_for_each() -> None:
    def row(unit: str, name: str, value: float) -> dict:
        machine = {"processor": "AMD", "units": "AMX", "cores": 2, "commit": "c0"}
        return {**machine, "job": "x", "unit": unit, "sides": {name: value}, "ratios": {}}

    rows = [row("perplexity", "nlptools a", 9.0), row("s", "nlptools a", 2.0), row("perplexity", "nlptools b", 8.0)]
    shown = page.wide_table("x", [*rows, row("perplexity", "nlptools a", 7.0)])
    assert shown.split("\n")[2:6] == [
        "| | perplexity | s | processor |",
        "|---|---|---|---|",
        "| **nlptools a** | 7.0 | 2.0 | AMD, AMX, c0; cores: 2 |",
        "| **nlptools b** | 8.0 |  | AMD, AMX, c0; cores: 2 |",
    ]


# -- cost as work grows -----------------------------------------------------------------------------------------------


def test_the_cost_of_a_command_is_that_of_all_its_processes(tmp_path: Path) -> None:
    child = "import time; held = bytearray(b'x') * (40 << 20); open('out', 'wb').write(held); time.sleep(.3)"
    words = [
        sys.executable,
        "-S",
        "-c",
        f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}])",
    ]
    found = process_trees.cost(words, tmp_path, 60)
    assert 40 < found.memory < 80 and found.mapped > found.memory and 40 <= found.disk < 42 and found.seconds > 0.3
    with pytest.raises(process_trees.Failed, match="stopped after 0 s"):
        process_trees.cost([sys.executable, "-S", "-c", "import time; time.sleep(60)"], tmp_path, 0.1)
    with pytest.raises(process_trees.Failed, match="status 3: why"):
        process_trees.cost([sys.executable, "-S", "-c", "import os; os.write(2, b'why'); os._exit(3)"], tmp_path, 60)


def test_a_growing_text_is_the_same_for_all_sizes(tmp_path: Path) -> None:
    small, large = (samples.growing_text(tmp_path / str(size), size).read_bytes() for size in (100_000, 1_000_000))
    assert large.startswith(small) and small.endswith(b".\n") and 0.99 < len(large) / 1_000_000 <= 1
    assert len({*large.split()}) > 3 * len({*small.split()})
    assert len({samples.spelled(rank) for rank in range(20_000)}) == 20_000


def test_times_of_larger_sizes_continue_those_of_smaller_ones() -> None:
    assert scaling_page.predicted([], 10) == 0 and scaling_page.predicted([(10, 3)], 100) == 30
    assert scaling_page.predicted([(100, 12), (10, 3), (1000, 0)], 1000) == pytest.approx(102)  # a start of 2
    assert scaling_page.predicted([(10, 1), (100, 100)], 1000) == pytest.approx(10_000)


def test_the_page_of_costs_tells_growth() -> None:
    def row(side: str, size: int, seconds: float, memory: float) -> dict:
        place = {"place": "AMD", "mark": "", "threads": 1, "job": "tokenize", "disk": 2.0}
        return place | {"sides": {side: seconds}, "size": size, "memory": memory, "mapped": memory}

    rows = [row("theirs", 10**7, 9, 5), row("nlptools", 10**7, 2, 50), row("nlptools", 10**8, 20, 59)]
    filters = [row("nlptools", size, 1, memory) | {"job": "memory of x"} for size, memory in ((10**7, 5), (10**9, 29))]
    shown = scaling_page.render([*rows, *filters]).split("\n")
    assert "| **nlptools** | 100 MB | 20 | 1.00 | 59 | 0.1 | 59 | 2 |" in shown
    assert "| theirs | (100 MB) | (90) | | | | | |" in shown
    assert "| x | 10 MB | 5 | 1 GB | 29 | 24.0 TOO MUCH |" in shown


def test_each_filter_has_its_memory_measured_or_a_reason() -> None:
    groups = {
        name: importlib.import_module(f"nlptools.cli.{name.replace('-', '_')}").command.groups for name in COMMANDS
    }
    filters = {name for name in COMMANDS if LineOutput in groups[name]}
    measured = {name.split()[0] for name in scaling_filters.FILTERS}
    assert filters <= measured | {*scaling_filters.WITHOUT} and not measured & {*scaling_filters.WITHOUT}


def test_the_model_of_a_cluster_is_near_published_runs() -> None:
    gpu = cluster_costs.GPUS["H100"]
    alone, pair = (cluster_costs.step(cluster_costs.XL, gpu, count, 1 << 20) for count in (1, 2))
    assert alone.sent == alone.waiting == 0 and pair.sent == 4 * cluster_costs.XL.parameters
    assert pair.computing == alone.computing / 2 and pair.waiting > 0
    ratios = []
    for run in cluster_costs.RUNS:
        one = cluster_costs.step(run.network, cluster_costs.GPUS[run.gpu], run.gpus, run.batch, sharded=run.sharded)
        ratios += [] if "no formula" in run.source else [run.batch / run.gpus / one.seconds / run.rate]
    assert len(ratios) >= 8 and min(ratios) > 0.5 and max(ratios) < 2
    assert sum(0.8 < ratio < 1.25 for ratio in ratios) == len(ratios) - 1
