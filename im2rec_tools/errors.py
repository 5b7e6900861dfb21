"""The one exception for images, lists and shards that a person has to mend."""


class DataError(Exception):
    """Something is wrong with the data or the folders given; its text is one line."""


class DamagedTarError(DataError):
    """A tar, or a tar in a tar, is damaged or cut off."""
