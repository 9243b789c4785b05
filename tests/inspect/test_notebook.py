"""What a notebook shows of Tensors and compiled functions."""

import wengert as wg


def test_a_tensor_shows_its_value_and_how_it_was_recorded():
    x = wg.tensor(2.0, requires_grad=True)
    shown = (wg.sin(x) * x)._repr_html_()
    assert "1.8186" in shown
    assert "recorded: 2 ops" in shown and "sin" in shown and "test_notebook.py" in shown


def test_a_tensor_without_a_history_shows_only_its_value():
    assert "recorded" not in wg.tensor([1.0, 2.0])._repr_html_()
    assert "recorded" not in wg.tensor([1.0, 2.0], requires_grad=True)._repr_html_()


def test_a_tensor_whose_graph_is_gone_shows_only_its_value():
    x = wg.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    assert "4" in y._repr_html_() and "recorded" not in y._repr_html_()


def test_a_compiled_function_shows_what_was_made_of_it():
    f = wg.compile(lambda x: wg.exp(x) + 1)
    assert "not called yet" in f._repr_html_()
    f(wg.ones(3))
    assert "&lt;compiled" in f._repr_html_() and "bytes moved" in f._repr_html_()
