"""Settings of libraries and of the interpreter, each set at the beginning of its case."""
# ruff: noqa: F811

import calendar
import csv
import logging
import reprlib
import sys
import threading

import numpy as np

# case: field_size_limit
csv.field_size_limit(1000)


def f(x):
    return x * csv.field_size_limit()


def change():
    csv.field_size_limit(2000)


# case: int digits
sys.set_int_max_str_digits(5000)


def f(x):
    return x * sys.get_int_max_str_digits()


def change():
    sys.set_int_max_str_digits(6000)


# case: bufsize
np.setbufsize(8192)


def f(x):
    return x * np.getbufsize()


def change():
    np.setbufsize(16384)


# case: level names
logging.addLevelName(15, "AB")


def f(x):
    return x * len(logging.getLevelName(15))


def change():
    logging.addLevelName(15, "ABC")


# case: first weekday
calendar.setfirstweekday(0)


def f(x):
    return x * (calendar.firstweekday() + 1)


def change():
    calendar.setfirstweekday(6)


# case: a month's calendar
calendar.setfirstweekday(0)


def f(x):
    return x * (calendar.monthcalendar(2020, 1)[0][0] + calendar.monthcalendar(2020, 1)[0][3])


def change():
    calendar.setfirstweekday(6)


# case: reprlib limits
reprlib.aRepr.maxlist = 6


def f(x):
    return x * len(reprlib.repr(list(range(20))))


def change():
    reprlib.aRepr.maxlist = 10


# case: stack size -> refuses
threading.stack_size(0)


def f(x):
    return x * (threading.stack_size() + 1)


def change():
    threading.stack_size(1 << 20)
