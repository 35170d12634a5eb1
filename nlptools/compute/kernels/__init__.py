"""Hand-written forward and backward passes that are faster on a CPU than PyTorch's own, one file for each operation.

Each public function has a plain definition in its docstring and computes it on every device: where PyTorch's kernel is the
faster one, as on a GPU or inside `torch.compile`, the function calls that. oneDNN and `torch.ops` appear in
this package only. Each backward pass is compared with autograd or with finite differences in `tests/compute/kernels`.
Letters for dimensions: see `nlptools.layers`. In addition, G = B*H: the heads of all sequences.
"""
