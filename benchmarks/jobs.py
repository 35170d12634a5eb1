"""The jobs in the first table of README.md, here and in the package."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """A line of the table. Its figures come from the records of `script`.

    Attributes:
        name: the job.
        tool: the usual tool for it.
        command: the command of nlptools.
        same: whether both compute the same numbers.
        script: the script that measures it.
        record: the heading of its records.
        sides: how the names of the tool's rows begin.
        memory: the heading of the records of its memory, if any.
        readme: whether the README of the package also has this line.
    """

    name: str
    tool: str
    command: str
    same: str
    script: str
    record: str
    sides: str
    memory: str = ""
    readme: bool = False


_PPO = "PPO, GPT-2 of 6 x 384, 64 samples of 48 words, 32 an update, separate critic and reward model"
JOBS = (
    Job("Train a language model", "plain PyTorch loop", "train-lm", "same loss function",
        "training_speed", "training, GPT-2 124M shape, context 512, 4 sequences", "plain loop", readme=True),
    Job("Train an LSTM language model", "plain nn.LSTM loop", "train-lm --arch lstm", "same loss function",
        "lstm_speed", "training, LSTM medium: 2 x 650, embeddings of 650, 20 sequences of 35", "plain nn.LSTM"),
    Job("Train a translation model", "plain PyTorch loop", "train-seq2seq", "same loss function",
        "translation_training_speed", "training, Transformer 3+3 layers, 256 wide, 8,000 pieces, dropout 0.3", "plain loop"),
    Job("Pretrain a BERT", "transformers", "pretrain-bert", "same loss function",
        "pretraining_speed", "pretraining (mlm), BERT base's shape, 12 layers, length 128, beside autocast", "transformers"),
    Job("Fine-tune an encoder", "loop over transformers", "finetune", "similar accuracy",
        "finetuning_speed", "fine-tuning, sst2", "plain loop", readme=True),
    Job("Classify texts", "transformers pipeline", "predict", "same labels in fp32",
        "finetuning_speed", "20,000 sentences, whole process of predict", "transformers"),
    Job("Train on preferences (DPO)", "trl", "finetune --task preference", "same loss function",
        "alignment_speed", "dpo, GPT-2 of 6 x 384, batch 16", "trl", readme=True),
    Job("Reinforcement learning (PPO)", "trl", "train-ppo", "same loss function",
        "ppo_speed", _PPO, "PPOTrainer", f"memory of {_PPO}"),
    Job("Train word vectors", "gensim", "train-w2v", "similar accuracy",
        "word_vectors_speed", "skipgram", "gensim", readme=True),
    Job("Train a bag-of-n-grams classifier", "fastText", "finetune --scratch bag", "similar accuracy",
        "bag_speed", "bag of words and pairs", "fasttext"),
    Job("Learn phrases", "gensim", "phrases", "yes",
        "phrases_speed", "learning and joining phrases in 1.6 M words", "gensim"),
    Job("Generate text", "transformers", "generate", "yes, in fp32",
        "generation_speed", "greedy generation, GPT-2 124M shape, 64 prompts of 8 to 128, 64 new tokens", "transformers",
        readme=True),
    Job("Translate", "transformers", "generate", "yes, in fp32",
        "translation_decoding_speed", "translation, beam 5, 1000 lines, model base", "transformers"),
    Job("Score multiple choices", "lm-evaluation-harness", "score --choices", "yes, in fp32",
        "choices_speed", "150 items of 4 choices, GPT-2 of 12 layers, 768 wide (124M: 12)", "lm-evaluation", readme=True),
    Job("Surprisal of words", "minicons", "score --per word", "yes, in fp32",
        "surprisal_speed", "surprisal of words, GPT2 12,768,12", "minicons"),
    Job("Score with n-grams", "KenLM", "score", "yes",
        "ngram_speed", "scores of 100,000 lines, 5,601,252 words", "kenlm"),
    Job("Sentence embeddings", "sentence-transformers", "embed", "yes, in fp32",
        "embedding_speed", "4,000 sentences, steady", "sentence-transformers", readme=True),
    Job("Nearest words", "gensim", "neighbors", "yes",
        "neighbors_speed", "process: 1,000 words among 100,000 x 300", "gensim"),
    Job("Analogies", "gensim", "eval-vectors", "yes",
        "eval_vectors_speed", "analogies, 30,000 words x 100", "gensim"),
    Job("Split text into pieces", "SentencePiece", "tokenize", "yes",
        "tokenize_speed", "unigram model of 8,000 pieces, 200,000 lines, 2 threads", "sentencepiece"),
    Job("BLEU", "sacrebleu", "bleu", "yes",
        "bleu_speed", "100,000 lines, 13a", "sacrebleu", "100,000 lines, 13a: peak memory", readme=True),
    Job("ROUGE", "rouge-score", "evaluate -m rouge1", "yes",
        "rouge_speed", "ROUGE-1, -2, -L, -Lsum of 1000 texts of 3 sentences of 20 words, no stems", "rouge-score"),
    Job("Entity F1", "seqeval", "evaluate -m entity-f1", "yes",
        "entity_f1_speed", "entity F1, strict, 200,000 tokens in memory", "seqeval"),
)  # fmt: skip
