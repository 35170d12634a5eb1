"""Torch modules that do not know what task they serve.

Shapes, one legend for the whole house: `B` batch, `T` target or only length, `S` source or step length, `E` embedding,
`D` hidden, `H` heads, `K` size per head, `V` vocabulary, `L` layers, `N` n-gram order or number of rows.
Masks: `True` means "real, attend".
"""
