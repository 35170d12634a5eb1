"""The task `rank`: how well a text answers a query."""
