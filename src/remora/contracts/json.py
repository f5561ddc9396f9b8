"""Which values can a stored fact have? Plain JSON."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
