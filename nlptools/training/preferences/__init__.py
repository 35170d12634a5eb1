"""Alignment: language models that follow instructions and preferences (Ouyang et al. 2022, arXiv:2203.02155)."""
