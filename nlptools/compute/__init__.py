"""Devices, precisions, threads and processes."""
