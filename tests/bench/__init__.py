"""Tests of the bench: it runs, and its figures are sane."""
