"""Files: opening streams, writing whole files, artifacts of model directories, ranges of lines, prefetching."""
