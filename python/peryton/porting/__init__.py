"""Bulk in and out: CSV files, SQLite databases and SQL dumps, as `peryton import` and `peryton export` use them."""
