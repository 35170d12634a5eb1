"""Training of sentence vectors: `finetune --task similarity`."""
