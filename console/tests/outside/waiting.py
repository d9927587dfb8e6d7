"""The longest wait for anything that a page shows."""

WAIT = 200_000  # milliseconds: a guard, not a measure; the tests end after 240 seconds
