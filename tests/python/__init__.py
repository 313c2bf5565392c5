"""Tests of the Python surface."""
