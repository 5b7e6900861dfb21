"""The one exception for images, lists and shards that a person has to mend."""


class DataError(Exception):
    """Something is wrong with the data or the folders given; a line, or several arguments."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The first says what is wrong, each of the others where."""
        return tuple(map(str, self.args))

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


class DamagedTarError(DataError):
    """A tar, or a tar in a tar, is damaged or cut off."""
