"""Answers over HTTP: requests, a queue in front of one model, the web application."""
