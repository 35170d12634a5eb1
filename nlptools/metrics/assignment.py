"""The assignment problem: pairs of rows and columns with the largest sum.

Kuhn 1955, "The Hungarian method for the assignment problem", with potentials, a row at a time (Jonker & Volgenant 1987).
Shapes: R rows, C columns.
"""

from __future__ import annotations

import numpy as np

from nlptools.metrics.metric import Values


def best_assignment(scores: Values) -> list[tuple[int, int]]:
    """The pairs (row, column) with the largest sum of `scores` (R, C), min(R, C) of them; each row and column is in one at
    most. Time R C min(R, C).
    """
    if scores.shape[0] > scores.shape[1]:
        return [(row, column) for column, row in best_assignment(scores.T)]
    R, C = scores.shape
    row_potential, column_potential = np.zeros(R), np.zeros(C)
    row_of = np.full(C + 1, -1)  # the row of each column; the last entry is of the row that looks for one
    for row in range(R):
        row_of[C] = row
        column, slack, before = C, np.full(C, np.inf), np.full(C, C)
        done = np.zeros(C, bool)
        while row_of[column] >= 0:
            if column < C:
                done[column] = True
            at = row_of[column]
            costs = -scores[at] - row_potential[at] - column_potential
            better = ~done & (costs < slack)
            slack[better], before[better] = costs[better], column
            column = int(np.where(done, np.inf, slack).argmin())
            step = slack[column]
            row_potential[row_of[:C][done]] += step
            row_potential[row] += step
            column_potential[done] -= step
            slack[~done] -= step
        while column < C:  # the path back to the new row changes hands
            row_of[column] = row_of[before[column]]
            column = int(before[column])
    return [(int(row_of[column]), column) for column in range(C) if row_of[column] >= 0]
