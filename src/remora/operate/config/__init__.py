"""What did the owner decide? Settings: their shape, how they are read, secrets and units."""
