"""Measures Peryton beside its peers, in one run, with one client. `peryton bench` is its front.

A run starts each server once, on loopback, and measures them in turns (A B C A B C ...), so that whatever else the
machine does falls on all of them. It reports medians, spreads and ratios; it asserts nothing.

Reading order: `load` (what is sent, what is measured), `peers` (the servers), `runner` (turns, medians, ratios),
`suites` (the workloads), `verdict` (the targets), `report` (tables and JSON).
"""
