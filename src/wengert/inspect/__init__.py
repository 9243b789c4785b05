"""Pages of a recorded computation and its program, profiles of time and memory, timelines."""

from wengert.inspect.page import page
from wengert.inspect.profile import Profile, profile
from wengert.inspect.show import InlinePage, show
from wengert.inspect.timeline import RankTimelines, timeline

__all__ = ["InlinePage", "Profile", "RankTimelines", "page", "profile", "show", "timeline"]
