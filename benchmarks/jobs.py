"""The scripts of this folder, and the jobs in the first table of README.md, here and in the package."""

from __future__ import annotations

from typing import NamedTuple


class Script(NamedTuple):
    """How a script is run.

    Attributes:
        measures: the folders of the package that it measures: a later change of them makes a record old.
        toy: the arguments of its smallest run.
        minutes: how long a usual run takes on two cores.
        usual: the arguments of its usual run; several ones are run and continued by themselves.
        gpu: the arguments of its run on one GPU; "": it says nothing about a GPU.
        peers: packages that `bin/test` does not install, without which the other side is missing.
        page: the page that shows its records, if that is not README.md.
    """

    measures: str
    toy: str
    minutes: float
    usual: tuple[str, ...] = ("",)
    gpu: str = ""
    peers: str = ""
    page: str = ""


_SEQ2SEQ = "models/translation training/engine training/objectives.py compute layers"
_LM = "models/language training/engine training/objectives.py compute layers"
SCRIPTS = {
    "startup": Script("cli configs", "", 1),
    "entity_f1_speed": Script("metrics", "--tokens 500", 1),
    "rouge_speed": Script("metrics", "--examples 20", 1),
    "tokenize_speed": Script("text", "--lines 2000 --size 300", 3),
    "phrases_speed": Script("sequences", "{tokens} --lines 100", 3),
    "eval_vectors_speed": Script("vectors", "--words 2000 --dimensions 10 --questions 50", 3),
    "neighbors_speed": Script("vectors", "--words 500 --dimensions 10 --queries 20", 5),
    "bag_speed": Script("training/finetuning tasks", "--epochs 2 --copies 1", 5),
    "scaling": Script("cli text corpora files metrics training/ngrams training/word_vectors vectors inference",
                      "--sizes 10KB --parts growth,memory --commands tokenize,bleu --stream-seconds 1", 35, page="scaling.md"),
    "bleu_speed": Script("metrics", "--lines 50 --jobs 13a,zh,bootstrap,million", 15),
    "choices_speed": Script("inference", "--items 3 --layers 1 --hidden 64", 10, ("--items 40",), peers="lm-eval"),
    "surprisal_speed": Script("inference", "--lines 6 --layers 1 --hidden 64 --vocab 400", 10, peers="minicons"),
    "elmo_embedding_speed": Script("inference/embedding models/language", "--shape toy-elmo --lines 8", 5),
    "embedding_speed": Script("inference/embedding models/encoders layers",
                              "--parts steady,process,runtimes,shapes,static --lines 8 --static 50 --layers 1 --hidden 64", 6,
                              ("--parts steady,process", "--parts runtimes", "--parts static",
                               "--parts shapes --encoders roberta,mpnet",
                               "--parts shapes --encoders xlm-roberta,modernbert", "--parts memory"),
                              gpu="--parts steady --lines 20000",
                              peers="sentence-transformers ctranslate2 openvino nncf model2vec"),
    "busy_neighbor": Script("compute", "--parts decoding,training --layers 1 --hidden 64 --tokens 2 --lines 20 --steps 1", 12,
                            ("--parts decoding", "--parts embedding", "--parts training"),
                            peers="sentence-transformers xllamacpp"),
    "attention_maps_speed": Script("inference layers models", "--shape 1,64,2 --length 16", 5),
    "word_vectors_speed": Script("training/word_vectors", "--parts skipgram --words 3000", 15, gpu="--parts skipgram,cbow"),
    "generation_speed": Script("inference/generation layers compute",
                               "--jobs batch,llama,score --layers 1 --hidden 192 --vocab 99 --new 3 --lines 4", 20,
                               gpu="--rounds 3"),
    "recurrent_scoring_speed": Script("inference layers compute models/language", "--lines 20 --layers 1 --hidden 16", 8),
    "lookup_speed": Script("inference/generation layers compute",
                           "--lines 60 --prompts 3 --new 6 --pieces 300 -- --layers 1 --hidden 16 --heads 1 --steps 2 --warmup 0",
                           20),
    "llama_cpp_speed": Script("inference/generation layers compute converters",
                              "--shapes toy,toy-llama --prompts 1,16 --new 3", 6, tuple(
                                  f"--shapes {shape} --prompts {n}" for n in ("1", "16", "32 --new 64")
                                  for shape in ("gpt2", "smollm")),
                              peers="xllamacpp"),
    "training_speed": Script(_LM, "--shapes toy,toy-llama,toy-lstm,toy-xl,toy-elmo --seconds 0", 8,
                             ("--shapes gpt2,smollm", "--shapes char,char-dropout,llama-small",
                              "--shapes lstm-small,lstm-medium,lstm-awd", "--shapes xl-ptb,xl-small,xl-char,elmo-small"),
                             gpu="--shapes gpt2,smollm,lstm-awd,xl-ptb"),
    "pretraining_speed": Script("models/encoders training/pretraining training/engine compute layers",
                                "--texts random --layers 1 --hidden 64 --sequences 2 --seconds 0", 8,
                                ("--texts articles --objectives mlm",),
                                "--texts random --objectives mlm --sequences 32 --seconds 5"),
    "translation_training_speed": Script(_SEQ2SEQ, "--seconds 0 --tokens 100", 5, gpu="--seconds 10"),
    "encoder_decoder_speed": Script("inference/generation models/translation layers compute",
                                    "--shapes toy-marian,toy-t5,toy-bart --lines 12 --new 4", 7,
                                    ("--shapes marian-base", "--shapes t5-small --beams 1", "--shapes t5-small --beams 4",
                                     "--shapes bart-base --beams 1", "--shapes bart-base --beams 4"),
                                    gpu="--shapes marian-base --lines 1000", peers="ctranslate2"),
    "finetuning_speed": Script("training/finetuning training/similarity training/engine tasks inference models/encoders",
                               "--tasks sst2,conll2003 --examples 20 --lines 20 --pairs 40", 6,
                               ("--parts train --tasks sst2,conll2003", "--parts predict", "--parts similarity"),
                               peers="sentence-transformers datasets"),
    "alignment_speed": Script("training/preferences training/finetuning training/engine",
                              "--examples 4 --layers 1 --hidden 64 --samples 4 --batch 2 --new 3 --passes 1 --steps 1", 30,
                              peers="trl==0.29"),
    "ngram_speed": Script("training/ngrams inference", "{tokens}", 20, peers="kenlm"),
    "word_vectors_quality": Script("training/word_vectors vectors", "{tokens} --epochs 1 --seeds 1", 60),
    "translation_quality": Script(_SEQ2SEQ, "--examples 40 --size 300 --archs rnn -- --epochs 0.1", 300),
    "attention_by_length": Script(_SEQ2SEQ, "-- --steps 2", 60),
    "preference_suites": Script("training/preferences training/finetuning",
                                "--parts align,rewards --suites word --methods ppo"
                                " --seeds 1 --steps 2 --examples 20 --pairs 20 --reward-pairs 20", 120),
    "task_quality": Script("training/finetuning tasks models/encoders", "--tasks sst2,bag --examples 20", 200),
    "filling_quality": Script("inference/filling.py training/pretraining models/encoders",
                              "--masks 20 --size 400 --lines 200 -- --warmup 0 --layers 1 --hidden 16 --heads 1"
                              " --intermediate 16 --steps 2", 70),
    "auxiliary_loss": Script("training/finetuning tasks models/language",
                             "--examples 20 --epochs 1 --seeds 1,2 --pieces 300 --lines 300"
                             " -- --layers 1 --hidden 16 --heads 1 --steps 2 --warmup 0", 60),
    "static_quality": Script("training/static_vectors.py inference/embedding", "--examples 40", 3, peers="model2vec[distill]"),
    "universal_quality": Script("training/finetuning tasks models/encoders", "--examples 20", 15),
    "language_model_families": Script(_LM, "--parts mixture --lines 40 --share 0.01", 300),
}  # fmt: skip


class Job(NamedTuple):
    """A line of the table. Its figures come from the records of `script`.

    Attributes:
        name: the job.
        tool: the usual tool for it.
        command: the command of nlptools.
        same: whether both compute the same numbers, where the records do not say it.
        script: the script that measures it.
        record: how the heading of its records begins.
        sides: how the names of the tool's rows begin.
        package: the package of the tool, whose version is shown.
        readme: whether the README of the package also has this line.
    """

    name: str
    tool: str
    command: str
    same: str
    script: str
    record: str
    sides: str
    package: str = "torch"
    readme: bool = False


_LOSS, _FP32, _ACCURACY = "same loss function", "yes, in fp32", "similar accuracy"
JOBS = (
    Job("Train a language model", "plain PyTorch loop", "train-lm", _LOSS,
        "training_speed", "training, GPT-2 124M shape", "plain loop", readme=True),
    Job("Train a LLaMA", "plain PyTorch loop", "train-lm --arch modern", _LOSS,
        "training_speed", "training, LLaMA, SmolLM", "plain loop"),
    Job("Train an LSTM language model", "plain nn.LSTM loop", "train-lm --arch lstm", _LOSS,
        "training_speed", "training, LSTM medium", "plain loop"),
    Job("Train a translation model", "plain PyTorch loop", "train-seq2seq", _LOSS,
        "translation_training_speed", "training, Transformer 3+3 layers", "plain loop"),
    Job("Pretrain a BERT", "transformers", "pretrain-bert", _LOSS,
        "pretraining_speed", "pretraining (mlm)", "transformers", "transformers"),
    Job("Fine-tune an encoder", "loop over transformers", "finetune", _ACCURACY,
        "finetuning_speed", "fine-tuning, sst2", "plain loop", "transformers", readme=True),
    Job("Classify texts", "transformers pipeline", "predict", "same labels in fp32",
        "finetuning_speed", "sentences by a whole process of predict", "transformers", "transformers"),
    Job("Train sentence embeddings", "sentence-transformers", "finetune --task similarity", _LOSS,
        "finetuning_speed", "similarity training, MiniLM", "sentence-transformers", "sentence-transformers"),
    Job("Train on preferences (DPO)", "trl", "finetune --task preference", _LOSS,
        "alignment_speed", "dpo, GPT-2 of 6 x 384", "trl", "trl", readme=True),
    Job("Reinforcement learning (PPO)", "trl", "train-ppo", _LOSS,
        "alignment_speed", "PPO, GPT-2 of 6 x 384, 64 samples of 48 words, 32 an update, separate", "PPOTrainer", "trl"),
    Job("Train word vectors", "gensim", "train-w2v", _ACCURACY,
        "word_vectors_speed", "skipgram", "gensim", "gensim", readme=True),
    Job("Train a bag-of-n-grams classifier", "fastText", "finetune --scratch bag", _ACCURACY,
        "bag_speed", "bag of words and pairs", "fasttext", "fasttext-wheel"),
    Job("Learn phrases", "gensim", "phrases", "yes", "phrases_speed", "learning and joining phrases", "gensim", "gensim"),
    Job("Generate text", "transformers", "generate", _FP32,
        "generation_speed", "greedy generation, GPT-2 124M shape, 64 prompts", "transformers", "transformers", readme=True),
    Job("Generate with drafts from the prompt", "transformers", "generate --lookup", "yes",
        "lookup_speed", "summaries of", "transformers", "transformers"),
    Job("Decode one prompt", "llama.cpp", "generate", "yes, up to rounding",
        "llama_cpp_speed", "decoding, SmolLM 135M shape, one prompt of 32, 128 new tokens, 16", "llama.cpp", "xllamacpp"),
    Job("Decode 16 prompts", "llama.cpp", "generate", "yes, up to rounding",
        "llama_cpp_speed", "decoding, SmolLM 135M shape, 16 prompts of 32, 128 new tokens, 16", "llama.cpp", "xllamacpp"),
    Job("Translate", "transformers", "generate", _FP32,
        "encoder_decoder_speed", "marian-base shape, beam 5", "transformers", "transformers"),
    Job("Score multiple choices", "lm-evaluation-harness", "score --choices", _FP32,
        "choices_speed", "40 items of 4 choices", "lm-evaluation", "lm-eval", readme=True),
    Job("Surprisal of words", "minicons", "score --per word", _FP32,
        "surprisal_speed", "surprisal of words", "minicons", "minicons"),
    Job("Score with an LSTM", "plain nn.LSTM loop", "score", "not compared: random weights",
        "recurrent_scoring_speed", "scoring, LSTM of 2 x 650, each line alone", "plain"),
    Job("Score with n-grams", "KenLM", "score", "yes", "ngram_speed", "scores of 100,000 lines", "kenlm", "kenlm"),
    Job("Sentence embeddings", "sentence-transformers", "embed", _FP32,
        "embedding_speed", "2,000 sentences, steady", "sentence-transformers", "sentence-transformers", readme=True),
    Job("Sentence embeddings by RoBERTa base", "transformers", "embed", _FP32,
        "embedding_speed", "roberta base shape", "transformers", "transformers"),
    Job("Static sentence embeddings", "model2vec", "embed", "yes",
        "embedding_speed", "100,000 lines by static token vectors", "model2vec", "model2vec"),
    Job("Generate by T5 small", "transformers", "generate", _FP32,
        "encoder_decoder_speed", "t5-small shape, greedy", "transformers", "transformers"),
    Job("Nearest words", "gensim", "neighbors", "yes", "neighbors_speed", "command: 10 nearest", "gensim", "gensim"),
    Job("Analogies", "gensim", "eval-vectors", "yes", "eval_vectors_speed", "analogies, 30,000 words x 100", "gensim", "gensim"),
    Job("Split text into pieces", "SentencePiece", "tokenize", "yes",
        "tokenize_speed", "unigram model of", "sentencepiece", "sentencepiece"),
    Job("BLEU", "sacrebleu", "bleu", "yes", "bleu_speed", "100,000 lines, 13a", "sacrebleu", "sacrebleu", readme=True),
    Job("ROUGE", "rouge-score", "evaluate -m rouge1", "yes", "rouge_speed", "ROUGE-1", "rouge-score", "rouge-score"),
    Job("Entity F1", "seqeval", "evaluate -m entity-f1", "yes", "entity_f1_speed", "entity F1", "seqeval", "seqeval"),
)  # fmt: skip
