"""The models that `finetune` makes: a pretrained one with heads, or one without pretraining."""

from __future__ import annotations

from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.logistic import Logistic
from nlptools.models.tasks.text_classifiers import TextClassifier
from nlptools.models.tasks.vision import VisionTransformer
from nlptools.models.tasks.word_tagger import WordTagger

TaskModel = TaskHeads | TextClassifier | Logistic | VisionTransformer | WordTagger
