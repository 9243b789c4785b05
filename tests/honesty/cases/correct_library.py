"""Correct programs over objects of libraries."""
# ruff: noqa: F811, B007

import functools
import hashlib
import http
import urllib.parse
import xml.etree.ElementTree as ET
import zlib

import wengert as wg
from wengert import nn

# case: XML constant
T = ET.ElementTree(ET.fromstring("<a><b>2</b><b>3</b></a>"))


def f(x):
    for b in T.getroot().iter("b"):
        x = x * float(b.text)
    return x


# case: XML parsed inside
S = "<a><b>2</b><b>3</b></a>"


def f(x):
    for b in ET.fromstring(S).iter("b"):
        x = x * float(b.text)
    return x


# case: hash inside
wg.manual_seed(0)
NAME = "abc"


def f(x):
    return x * (int(hashlib.sha256(NAME.encode()).hexdigest(), 16) % 7 + 1)


wg.manual_seed(0)


# case: hash with update inside
wg.manual_seed(0)


def f(x):
    h = hashlib.md5()
    h.update(b"abc")
    return x * h.digest()[0]


wg.manual_seed(0)


# case: XML built inside
wg.manual_seed(0)


def f(x):
    e = ET.Element("a")
    e.append(ET.Element("b", k="2"))
    e[0].set("k", "3")
    e.text = "1"
    return x * float(e[0].get("k")) * len(e) * float(e.text)


wg.manual_seed(0)


# case: zlib round
wg.manual_seed(0)


def f(x):
    c = zlib.compressobj()
    d = c.compress(b"ab") + c.flush()
    return x * len(zlib.decompress(d))


wg.manual_seed(0)


# case: urllib parse
wg.manual_seed(0)
U = "http://a/b?k=2"


def f(x):
    return x * float(urllib.parse.parse_qs(urllib.parse.urlparse(U).query)["k"][0])


wg.manual_seed(0)


# case: stacked ModuleLists by index
wg.manual_seed(0)
M = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])


def f(x):
    for i in range(len(M)):
        x = M[i](x)
    for m in M[1:]:
        x = m(x)
    return x


wg.manual_seed(0)


# case: parameters walked with a penalty
wg.manual_seed(0)
M = nn.Sequential(nn.Linear(3, 3), nn.Tanh())


def f(x):
    return M(x).sum() + sum((p * p).sum() for p in M.parameters())


wg.manual_seed(0)


# case: functional state
wg.manual_seed(0)
M = nn.Linear(3, 3)


def f(x):
    s = M.state_dict()
    return x @ s["weight"] + s["bias"]


wg.manual_seed(0)


# case: a ModuleDict by items
wg.manual_seed(0)
M = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Tanh()})


def f(x):
    for n, m in M.items():
        x = m(x)
    return x


wg.manual_seed(0)


# case: modules made inside
wg.manual_seed(0)


def f(x):
    m = nn.Sequential(nn.Tanh(), nn.ReLU())
    m.append(nn.Tanh())
    return m(x) * len(m)


wg.manual_seed(0)


# case: module attributes set inside on a local
wg.manual_seed(0)


def f(x):
    m = nn.Tanh()
    m.k = 2.0
    m.k += 1
    return m(x) * m.k


wg.manual_seed(0)


# case: a training step over modules gone through
wg.manual_seed(0)
M = nn.Sequential(nn.Linear(3, 1))
O = wg.optim.SGD(M.parameters(), lr=0.0)


def f(x):
    loss = M(x).sum() + sum((p * p).sum() for p in M.parameters())
    O.zero_grad()
    loss.backward()
    O.step()
    return loss


wg.manual_seed(0)


# case: http status


def f(x):
    return x * http.HTTPStatus(200).value * len(http.HTTPStatus.OK.phrase)


# case: a local list in a partial
def f(x):
    l = []
    p = functools.partial(l.append, 1)
    p()
    q = functools.partial(sum, l)
    l.append(2)
    return x * len(l) * q()


# case: a local object's method in a partial and a transform
class C:
    def __init__(self):
        self.n = 0
        self.k = 2.0

    def g(self, x):
        self.n += 1
        return (x * self.k).sum()


def f(x):
    o = C()
    p = functools.partial(o.g)
    y = p(x)
    return wg.grad(o.g)(x) * o.n + wg.grad(functools.partial(o.g))(x) + y
