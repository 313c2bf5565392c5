"""Python procedures, through every door."""
