"""Torch modules that a reader of the papers recognises; they do not know which task they serve.

Dimensions, one legend for the whole package. Suffixes name the dimensions of a tensor: `scores_BHTS`, `weight_VD`.
    B  sequences of a batch           H  attention heads
    T  target length, or the only one K  size of a head, D = H*K
    S  source length                  V  vocabulary
    E  embedding size                 L  layers
    D  hidden size                    N  tokens of all sequences, or rows; order of an n-gram model
Masks are bool: True = a real token, or a position to attend to. Parameters keep the names that model files have.
"""
