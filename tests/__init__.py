"""Tests of Peryton; one behaviour, every door."""
