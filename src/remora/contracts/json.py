"""What can a durable fact hold? Plain JSON."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
