"""The task `coreference`: which of two names a pronoun refers to."""
