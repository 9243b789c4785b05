"""Objects of libraries: classes in C that nobody can look into, and objects that can be called."""
# ruff: noqa: F811

import collections
import hashlib
import xml.etree.ElementTree as ET
import zlib

import numpy as np

# case: an element of XML
E = ET.Element("a", k="2")


def f(x):
    return x * float(E.get("k"))


def change():
    E.set("k", "3")


# case: children of an element of XML
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    return x * float(E[0].get("k"))


def change():
    E[0].set("k", "3")


# case: elements found
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    return x * float(E.find("b").attrib["k"])


def change():
    E[0].set("k", "3")


# case: elements gone through
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    for e in E:
        x = x * float(e.get("k"))
    return x


def change():
    E[0].set("k", "3")


# case: iter of XML
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    for e in E.iter("b"):
        x = x * float(e.get("k"))
    return x


def change():
    E[0].set("k", "3")


# case: iter of XML grows
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    for e in E.iter("b"):
        x = x * float(e.get("k"))
    return x


def change():
    E.append(ET.Element("b", k="5"))


# case: findall
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    for e in E.findall("b"):
        x = x * float(e.get("k"))
    return x


def change():
    E.append(ET.Element("b", k="5"))


# case: len of element
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    return x * len(E)


def change():
    E.append(ET.Element("b", k="5"))


# case: tostring
E = ET.fromstring("<a><b k='2'/></a>")


def f(x):
    return x * len(ET.tostring(E))


def change():
    E[0].set("k", "345")


# case: text of a child by findtext
E = ET.fromstring("<a><b>2</b></a>")


def f(x):
    return x * float(E.findtext("b"))


def change():
    E[0].text = "3"


# case: an element tree
T = ET.ElementTree(ET.fromstring("<a><b>2</b></a>"))


def f(x):
    return x * float(T.getroot().find("b").text)


def change():
    T.getroot()[0].text = "3"


# case: a kept hash object
H = hashlib.md5(b"ab")


def f(x):
    return x * H.digest()[0]


def change():
    H.update(b"c")


# case: poly1d
P = np.poly1d([2.0, 1.0])


def f(x):
    return x * P(1.0)


def change():
    P.coeffs[0] = 5.0


# case: poly1d set
P = np.poly1d([2.0, 1.0])


def f(x):
    return x * P(1.0)


def change():
    P[1] = 5.0


# case: Polynomial
P = np.polynomial.Polynomial([1.0, 2.0])


def f(x):
    return x * P(1.0)


def change():
    P.coef[0] = 5.0


# case: flags
A = np.zeros(2)


def f(x):
    return x * 2 if A.flags.writeable else x


def change():
    A.flags.writeable = False


# case: a slice of a UserList
class C:
    k = 2.0


U = collections.UserList([C(), C(), C()])


def f(x):
    for o in U[1:]:
        x = x * o.k
    return x


def change():
    U[2].k = 3.0


# case: element set inside -> refuses
E = ET.fromstring("<a k='1'/>")


def f(x):
    E.set("k", str(int(E.get("k")) + 1))
    return x


def effect():
    return E.get("k")


# case: element grown inside -> refuses
E = ET.fromstring("<a k='1'/>")


def f(x):
    E.append(ET.Element("b"))
    return x


def effect():
    return len(E)


# case: hash updated inside -> refuses
H = hashlib.md5(b"a")


def f(x):
    H.update(b"b")
    return x


def effect():
    return H.hexdigest()


# case: compressobj -> refuses
C = zlib.compressobj()


def f(x):
    return x * len(C.compress(b"a" * 100))


N = []


def effect():
    N.append(1)
    return len(N)


# case: mapped append -> refuses
L = []


def f(x):
    list(map(L.append, [1, 2]))
    return x


def effect():
    return len(L)


# case: list times equal -> refuses
L = [1.0]


def f(x):
    global L
    y = L
    y *= 2
    return x


def effect():
    return len(L)
