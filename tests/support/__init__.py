"""Helpers shared by the tests: protocol clients, servers under test."""
