"""The declarations of data commands fit the functions that plan them."""

import inspect

import pytest

from im2rec_tools.declarations import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_names_a_function_that_takes_its_options(name: str) -> None:
    command = COMMANDS[name]
    parameters = inspect.signature(command.planner).parameters
    taken = {one.name for one in parameters.values() if one.kind is not one.VAR_KEYWORD}
    given = {option.key for option in command.options}
    if len(taken) == len(parameters):
        assert given == taken
    else:  # the options of packing go on as they are
        assert taken <= given
    assert command.name == name
