"""Tests of the commands over the wire, judged by the real Redis where one is found."""
