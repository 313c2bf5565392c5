"""Tests of Peryton, one folder for each door or subject."""
