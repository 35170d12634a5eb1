"""nlptools cluster: lines with similar vectors."""

from __future__ import annotations

import json

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.clustering import Cluster


@make_command(
    "cluster",
    Cluster,
    Compute,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], cluster: Cluster, compute: Compute, lines: LineOutput, common: Common) -> None:
    """Group lines by the similarity of their vectors.

    Writes LABEL TAB LINE, in the order of the input; label 0 is the largest cluster. k-means on vectors of length 1. All
    lines are read before the first is written.
    """
    cluster.check()
    from nlptools import messages
    from nlptools.files import streams
    from nlptools.files.line_records import escape
    from nlptools.inference import line_groups

    names = streams.check_inputs(inputs)
    layout = "jsonl" if cluster.to == "jsonl" else None
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=layout) as out:
        blocks = streams.all_blocks(names, common.encoding_errors)
        with line_groups.line_vectors(blocks, cluster.model, cluster.vectors, compute, common.encoding_errors) as found:
            clusters = line_groups.cluster(found, cluster, compute.seed)
            count = messages.counted(int(clusters.labels.max()) + 1, "cluster")
            messages.note(
                f"{count} of {messages.counted(len(found.lines), 'line')}, mean cosine with the center"
                f" {clusters.cosines.mean():.4f} ({messages.counted(clusters.iterations, 'iteration')})"
            )
            if cluster.summary:
                for each in line_groups.summaries(found.lines, clusters, cluster.words, cluster.central):
                    if cluster.to == "jsonl":
                        out.write_lines([json.dumps(vars(each), ensure_ascii=False)])
                    else:
                        shown = map(escape, each.lines)
                        out.write_lines(["\t".join([str(each.label), str(each.size), " ".join(each.words), *shown])])
                return
            for label, line in zip(clusters.labels.tolist(), found.lines, strict=True):
                if cluster.to == "jsonl":
                    out.write_lines([json.dumps({"label": label, "text": line}, ensure_ascii=False)])
                else:
                    out.write_lines([f"{label}\t{line}"])
