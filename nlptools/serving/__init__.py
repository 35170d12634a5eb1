"""OpenAI's API: requests and answers as JSON objects, and a server with a queue in front of one model."""
