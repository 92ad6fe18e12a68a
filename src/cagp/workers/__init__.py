"""Work that is done in other processes or on other devices."""
