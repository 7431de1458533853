"""protocol/errors.py: codes are Kafka's, unique, and errors survive a trip between processes."""

import pickle

from headrace.protocol import coordinator_errors, errors, quorum_errors, security_errors, share_errors


def all_classes(base: type[errors.HeadraceError]) -> list[type[errors.HeadraceError]]:
    found = []
    for cls in base.__subclasses__():
        found += [cls, *all_classes(cls)]
    return found


def test_codes_are_unique() -> None:
    """Two classes with one code would make the answer of a server ambiguous."""
    modules = (errors, coordinator_errors, quorum_errors, security_errors, share_errors)
    names = [module.__name__ for module in modules]
    wire = [cls for cls in all_classes(errors.KafkaError) if cls.__module__ in names]
    codes = [cls.code for cls in wire]
    assert len(codes) == len(set(codes))
    assert set(errors.ERRORS_BY_CODE) == set(codes)


def test_every_error_survives_pickling() -> None:
    """Ray pickles exceptions: class, text and fields must arrive."""
    for cls in all_classes(errors.HeadraceError):
        if cls.__module__ == "headrace.stream.errors":
            continue  # with fields of their own: tests/unit/stream/test_errors.py
        error = cls("orders-3 at epoch 7")
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), copy.detail, str(copy)) == (cls, error.detail, "orders-3 at epoch 7")


def test_fields_survive_pickling() -> None:
    """Typed fields beyond the text arrive too."""
    copy = pickle.loads(pickle.dumps(errors.FlushTimeoutError("2 records left", remaining=2)))
    assert copy.remaining == 2


def test_error_without_detail_has_the_meaning_of_its_class() -> None:
    """The text of a bare error is the first line of its docstring, never empty."""
    assert str(errors.UnknownTopicIdError()).startswith("No topic has this id")


def test_error_from_code_gives_the_class_of_the_code() -> None:
    """A code from the wire becomes the exception that users catch."""
    error = errors.error_from_code(6, "node 2 leads")
    assert isinstance(error, errors.NotLeaderOrFollowerError)
    assert error.retriable
    assert error.refresh_metadata
    assert str(error) == "node 2 leads"


def test_error_from_an_unknown_code_keeps_the_code() -> None:
    """A newer server may send codes that this client does not know."""
    error = errors.error_from_code(9999, "new")
    assert isinstance(error, errors.UnknownServerError)
    assert "9999" in str(error)


def test_client_side_timeouts_are_builtin_timeouts() -> None:
    """`except TimeoutError` works for every wait that ran out."""
    for cls in (errors.DeliveryTimeoutError, errors.FlushTimeoutError, errors.BufferExhaustedError):
        assert issubclass(cls, TimeoutError)
