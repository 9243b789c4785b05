"""The `wengert` command: what it can be asked, and how its errors are told. What it does is elsewhere."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module

import wengert
from wengert.core.errors import ArgumentError, DistributedError, WengertError
from wengert.distributed import control

DESCRIPTION = "Automatic differentiation for Python. Train, evaluate and look around from the command line."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (the process's own, if none are given); the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = _parser(has_learn="learn" in given)
    options = parser.parse_args(given)
    options.given = given
    if "run" not in options:
        parser.print_help()
        return 0
    try:
        return int(options.run(options) or 0)
    except KeyboardInterrupt as error:
        print(f"\nwengert: {str(error) or 'interrupted'}", file=sys.stderr)
        return 128 + getattr(error, "signal_number", signal.SIGINT)  # as shells report a process that a signal ended
    except Exception as error:
        if options.traceback:
            raise
        job = control.current
        if job is None or job.size == 1:
            print(_told(error), file=sys.stderr)
        else:
            job.fail(error, partial(_tell_for_all, error))
        return 1


def _tell_for_all(error: Exception) -> None:
    """Tell an error once, of several ranks that have the same: by the first that is left, or by the launcher."""
    job = control.current
    is_first = job is not None and job.rank == (1 if getattr(error, "rank", None) == 0 else 0)
    is_told_by_launcher = isinstance(error, DistributedError) and "WENGERT_CONTROL" in os.environ
    if is_first and not is_told_by_launcher:
        print(_told(error), file=sys.stderr, flush=True)


def _told(error: Exception) -> str:
    """An error as the command tells it: what is wrong in a line or two, or what a script would have shown by itself."""
    shown = traceback.TracebackException.from_exception(error)
    is_scripts_own = _keep_own_frames(shown)
    if isinstance(error, WengertError):
        return f"wengert: {error if is_scripts_own else error.message}"
    if is_scripts_own:
        return "".join(shown.format()).rstrip("\n")
    if isinstance(error, OSError):
        return f"wengert: {_of_system(error)}"
    if isinstance(error, SyntaxError):  # of no file, as one with zero bytes in it
        return f"wengert: a script is not Python: {error}"
    if isinstance(error, (ImportError, RuntimeError)) and not isinstance(error, (RecursionError, NotImplementedError)):
        return f"wengert: {error}"
    if isinstance(error, MemoryError):
        return f"wengert: there is not enough memory{f': {error}' if str(error) else ''}"
    return f"wengert: {type(error).__name__}: {error}\n  this was not expected; --traceback shows where it came up"


def _keep_own_frames(shown: traceback.TracebackException) -> bool:
    """Leave the frames of scripts alone in a traceback, and of its causes those that have some; whether it has any."""
    shown.stack = traceback.StackSummary.from_list([frame for frame in shown.stack if _is_own(frame.filename)])
    if shown.__cause__ is not None and not _keep_own_frames(shown.__cause__):
        shown.__cause__ = None
    if shown.__context__ is not None and not _keep_own_frames(shown.__context__):
        shown.__context__ = None
    return bool(shown.stack) or _is_own(getattr(shown, "filename", None) or "<")  # a SyntaxError names its file


def _is_own(filename: str) -> bool:
    """Whether a file is a user's: neither Wengert's nor Python's nor an installed package's."""
    paths = sysconfig.get_paths()
    folders = (os.path.dirname(wengert.__file__), paths["stdlib"], paths["purelib"], paths["platlib"])
    return not filename.startswith(("<", *(folder + os.sep for folder in folders)))


def _of_system(error: OSError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    name = getattr(error, "filename", None)
    return f"{name}: {reason}" if name else reason


def _learn(options: argparse.Namespace) -> int | None:
    if options.topic in _LEARN_COMMANDS:
        module = import_module(_LEARN_COMMANDS[options.topic][0])
        return int(module.run(options))
    if options.topic == "distributed":
        from wengert.learn.distributed.tour import tour as many_ranks

        many_ranks(options.page)
        return None
    from wengert.learn.derivatives.tour import tour

    tour(options.seconds, options.page)
    return None


_LEARN_COMMANDS = {
    "grade": ("wengert.learn.grade", "grade what students handed in, one submission or a class"),
    "handout": ("wengert.learn.handout", "write an exercise for students"),
    "kit": ("wengert.learn.kit.kit", "write a term's exercises, solutions and graders"),
    "simulate": ("wengert.learn.kit.simulated", "write a class of simulated students, to try the grader on"),
    "slides": ("wengert.learn.kit.slides", "write the frames of the recitation, as SVG and PDF"),
}
"""What a course needs, by the word behind `wengert learn`: the module, and what it does."""


def _view(options: argparse.Namespace) -> None:
    from wengert.inspect import commands

    commands.view(options.target, options.inputs, options.out, options.open)


def _profile(options: argparse.Namespace) -> None:
    from wengert.inspect import commands

    own = argparse.ArgumentParser(prog="wengert profile", add_help=False, allow_abbrev=False)
    _add_profile_options(own)
    given = options.arguments
    end = given.index("--") if "--" in given else len(given)
    options, arguments = own.parse_known_args(given[:end], options)
    arguments += given[end + 1 :]
    kinds = options.by or ["kernel", "line"]
    commands.profile(options.script, arguments, kinds, options.top, options.trace, options.timeline)


def _tune(options: argparse.Namespace) -> int:
    if ".py:" in options.target:
        from wengert.inspect import commands

        commands.tune(options.target, options.inputs, options.seconds)
        return 0
    return _train(options)


def _scale(options: argparse.Namespace) -> None:
    from wengert.inspect import commands

    try:
        ranks = [int(count) for count in options.ranks.split(",")]
    except ValueError:
        raise ArgumentError(f"scale: --ranks takes numbers with commas, as 8,64, not {options.ranks!r}") from None
    step = None if options.step_ms is None else options.step_ms / 1e3
    commands.scale(options.target, options.inputs, ranks, options.machine, step)


def _bench(options: argparse.Namespace) -> None:
    from wengert.bench import commands

    commands.bench(options.out, options.seconds, options.only, options.more)


def _train(options: argparse.Namespace) -> int:
    from wengert.train import commands  # which takes a moment, and is not needed for help

    return commands.COMMANDS[options.command](options)


def _launch(options: argparse.Namespace) -> int:
    from wengert.distributed import launch

    asked = launch.job(options.ranks, options.hosts, options.module, options.script, options.arguments, options.grace)
    return launch.launch(asked, options.restarts, options.mpiexec)


def _torch(options: argparse.Namespace) -> int:
    from wengert.torch import checking, running

    if options.check:
        scripts = [options.script, *options.arguments]
        print(checking.text(scripts))
        return int(bool(checking.missing(scripts)))
    if options.ranks is not None:
        return _torch_ranks(options)
    running.run(options.script, options.arguments, options.module, options.torch_random)
    return 0


def _torch_ranks(options: argparse.Namespace) -> int:
    """Start this command once for each rank."""
    from wengert.distributed import launch

    flags = [*(["--torch-random"] if options.torch_random else []), *(["-m"] if options.module else [])]
    arguments = ["torch", *flags, options.script, *options.arguments]
    return launch.launch(launch.job(options.ranks, None, True, "wengert.cli", arguments))


def _doctor(options: argparse.Namespace) -> int:
    from wengert.inspect import doctor

    text, status = doctor.examined()
    print(text)
    return status


def _info(options: argparse.Namespace) -> None:
    from wengert.inspect import installation

    print(installation.text())


def _checkpoint(options: argparse.Namespace) -> int:
    from wengert.train import checkpoint_commands

    return checkpoint_commands.merge(options) if options.action == "merge" else checkpoint_commands.show(options)


def _cache(options: argparse.Namespace) -> None:
    from wengert.inspect import stored

    days = options.older_than
    if days is not None and (options.action is None or not days >= 0):
        raise ArgumentError("cache: --older-than is for clearing: wengert cache clear --older-than DAYS, such as 30")
    print(stored.cleared(days or 0.0) if options.action else stored.text())


# --- what can be asked ----------------------------------------------------------------------------------------------


def _parser(has_learn: bool = False) -> argparse.ArgumentParser:
    """All commands. The options of `wengert learn` come from its modules, which other commands do not wait for."""
    parser = argparse.ArgumentParser(prog="wengert", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"wengert {wengert.__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--traceback", action="store_true", help="show where in the code an error came up")
    commands = parser.add_subparsers(title="commands", dest="command")

    def added(name: str, help: str, run: Callable[[argparse.Namespace], int | None]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[shared], help=help)
        command.set_defaults(run=run)
        return command

    _add_train(added("train", "train a model on a data set", _train))
    _add_eval(added("eval", "evaluate a checkpoint", _train))
    _add_generate(added("generate", "continue a text with a trained model", _train))
    _add_torch(added("torch", "run a PyTorch script as it is: its `import torch` finds wengert.torch", _torch))
    _add_launch(added("launch", "run a script as several ranks, which compute together", _launch))
    _add_scale(added("scale", "what a step would take on more ranks, of a machine that is not here", _scale))
    learn = added("learn", "tours of how it works; exercises, their grader and a course kit", _learn)
    if has_learn:
        _add_learn(learn)
    _add_view(added("view", "a page of a function's graph, its gradient and its kernels", _view))
    _add_profile(added("profile", "run a script and tell where its time and memory go", _profile))
    _add_tune(added("tune", "choose the kernels of a GPU by timing them", _tune))
    _add_bench(added("bench", "measure ops and models on the CPU and the GPU, as a page of plots", _bench))
    _add_checkpoint(
        added("checkpoint", "what a checkpoint of several ranks holds; merge it into one file", _checkpoint)
    )
    _add_cache(added("cache", "what the cache of built programs holds; clear it", _cache))
    added("info", "what is installed, what is missing and how to get it", _info)
    added("doctor", "whether all of it works, a line each with what to do", _doctor)
    return parser


def _add_launch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--ranks", type=int, help="how many ranks; those of --hosts if not given")
    parser.add_argument("--hosts", metavar="a:8,b:8", help="machines and their ranks, which mpiexec can reach")
    grace = "seconds that ranks have to end by themselves after a loss (default: %(default)s)"
    parser.add_argument("--grace", metavar="SECONDS", type=float, default=1.2, help=grace)
    parser.add_argument("--restarts", metavar="K", type=int, default=0, help="start again up to K times after a loss")
    parser.add_argument("--mpiexec", metavar="PATH", help="the mpiexec to use; `none` starts processes without MPI")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="a Python file, or a module behind -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")


def _add_torch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--torch-random", action="store_true", help="draw PyTorch's random numbers of the CPU")
    ranks = "run the script as so many ranks, as torchrun does: RANK, WORLD_SIZE and LOCAL_RANK tell each which it is"
    parser.add_argument("-n", "--ranks", metavar="N", type=int, help=ranks)
    parser.add_argument("--check", action="store_true", help="list the names that scripts use and that are missing")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module")
    parser.add_argument("script", help="a Python file, or a module behind -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")


def _add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="script.py:function", help="a compiled step")
    parser.add_argument("inputs", nargs="*", help="its inputs: expressions; what the script's example() gives if none")
    parser.add_argument("--ranks", default="2", help="how many, with commas: 8,64,1024 (default: %(default)s)")
    parser.add_argument("--machine", default="here", help="h100, h200, a100, cpu-hdr, or here (default: %(default)s)")
    parser.add_argument("--step-ms", type=float, help="what one rank of that machine takes for a step, in milliseconds")


def _add_learn(parser: argparse.ArgumentParser) -> None:
    topics = parser.add_subparsers(dest="topic", metavar="topic", title="topics")
    tours = {"derivatives": "the ways to compute a derivative (the default)", "distributed": "what many ranks do"}
    for of in (parser, *(topics.add_parser(name, help=what) for name, what in tours.items())):
        seconds, page = (2.0, None) if of is parser else (argparse.SUPPRESS,) * 2  # a topic's come after these
        of.add_argument("--seconds", type=float, default=seconds, help="the longest measurement (default: 2)")
        of.add_argument("--page", metavar="FILE", default=page, help="write it as an HTML page too")
    for name, (module, what) in _LEARN_COMMANDS.items():
        import_module(module).add_arguments(topics.add_parser(name, help=what, description=what))


def _add_view(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="script.py:function", help="a function, compiled or not, or a Tensor")
    parser.add_argument("inputs", nargs="*", help="example inputs: expressions, with the script's names known")
    parser.add_argument("--out", metavar="FILE", help="the page's file; FUNCTION.html if not given")
    parser.add_argument("--no-open", dest="open", action="store_false", help="write the page and do not open it")


def _add_checkpoint(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    shown = actions.add_parser("show", help="who saved it, and its tensors")
    merged = actions.add_parser("merge", help="its whole tensors in one file, which other programs read")
    for action in (shown, merged):
        action.add_argument("folder", help="a checkpoint of several ranks, or a run's folder")
    merged.add_argument("file", help="the file to write: model.safetensors")
    merged.add_argument("--part", metavar="KEY", help="only this part of the state: model")


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["clear"], help="remove the entries; without it they are listed")
    parser.add_argument("--older-than", metavar="DAYS", type=float, help="only those that were not used for so long")


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", help="script.py:function, or what `wengert train` takes: a data set or a recipe")
    parser.add_argument("inputs", nargs="*", help="inputs of the function: expressions, with the script's names known")
    parser.add_argument("--seconds", type=float, default=30.0, help="the longest it may take (default: %(default)s)")
    parser.add_argument("--model", help="mlp, convnet, resnet18, gpt")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--dtype", help="float32, float64, bfloat16 or float16")
    _add_places(parser)


def _add_bench(parser: argparse.ArgumentParser) -> None:
    some = "families of ops, such as contract, reduce or normalize, or models; all if none are named"
    parser.add_argument("only", metavar="family", nargs="*", help=some)
    parser.add_argument("--out", metavar="FILE", default="bench.html", help="the page's file (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=280.0, help="about how long (default: %(default)s)")
    parser.add_argument("--more", action="store_true", help="complete the report that FILE holds already")


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", help="a Python file")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="the script's own arguments; after -- all of them are its own"
    )
    _add_profile_options(parser)


def _add_profile_options(parser: argparse.ArgumentParser) -> None:
    kinds = ["op", "kernel", "module", "function", "line"]
    parser.add_argument("--by", action="append", choices=kinds, help="tables to show")
    parser.add_argument("--top", type=int, default=10, help="rows of each table (default: %(default)s)")
    parser.add_argument("--trace", metavar="FILE", help="write the events for Chrome's trace viewer")
    parser.add_argument("--timeline", metavar="FILE", help="write a page of the kernels over time")


def _add_train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", nargs="?", help="digits, mnist, fashion-mnist, cifar10, text, a recipe.toml, or a Python file"
    )
    parser.add_argument("--model", help="mlp, convnet, resnet18, gpt")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--accumulate", type=int, help="batches whose gradients make one update")
    parser.add_argument("--lr", type=float, help="the learning rate")
    parser.add_argument("--patience", type=int, help="stop after so many epochs without a better result")
    parser.add_argument("--validation", type=float, help="hold back this share of the training examples to choose by")
    parser.add_argument("--limit", type=int, help="use so many training examples; 0 is all")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--dtype", help="float32, float64, bfloat16 or float16")
    parser.add_argument("--save-every", type=int, help="updates between checkpoints, besides that of every epoch")
    parser.add_argument("--no-compile", dest="compile", action="store_const", const=False, help="run steps dynamically")
    parser.add_argument("--tune", action="store_const", const=30.0, help="choose the kernels of a GPU by timing them")
    parser.add_argument("--ranks", type=int, help="processes that train together, each on its share of every batch")
    parser.add_argument("--shard", type=int, metavar="STAGE", help="ZeRO: what ranks hold in blocks; 1, 2 or 3")
    parser.add_argument(
        "--parts", type=int, help="cut batches into so many parts: the same bits on any number of ranks"
    )
    parser.add_argument("--out", help="the folder for the results; runs/DATA-MODEL if not given")
    parser.add_argument("--resume", metavar="PATH", help="go on from a run's folder or a checkpoint")
    _add_trust(parser)
    _add_places(parser)


def _add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a run's folder, or a checkpoint")
    _add_trust(parser)
    _add_places(parser)


def _add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust", action="store_true", help="run the Python file that the checkpoint names")


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="cpu or cuda")
    parser.add_argument("--file", help="the text to learn from")
    parser.add_argument("--data-folder", help="where the data set's files are")
    parser.add_argument("--workers", type=int, help="processes that prepare batches")


def _add_generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a run's folder, or a checkpoint, of a text model")
    parser.add_argument("--prompt", help="the text to continue; a new line if none is given")
    parser.add_argument("--tokens", type=int, default=500, help="how many tokens to add")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--seed", type=int, default=0)


if __name__ == "__main__":
    raise SystemExit(main())
