"""How are cells written as CSV that every reader splits alike? Cells with any line break in them are quoted."""

import csv
from typing import Final, TextIO

_END: Final = "\r\n"


class CsvLines:
    """Writes rows of CSV to a text file, each ended by one line feed.

    Before Python 3.13 the csv module quotes only those line breaks that its own line end has. If that were a line feed
    alone, a carriage return in a cell would begin a new line.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        rows = csv.writer(self, lineterminator=_END)
        self.row = rows.writerow
        self.rows = rows.writerows

    def write(self, line: str) -> None:
        """Take one line from the csv module."""
        self._out.write(line.removesuffix(_END) + "\n")
