// Search over nodes and groups: names, ops, functions, modules, lines and shapes, by words or by a regular expression.
"use strict";

const SHOWN_HITS = 60;

class Search {
  // `entries()` are { id or group, title, about, text }; `onGo(entry)` goes to one; `onFound(ids)` marks them all.
  constructor({ entries, onGo, onFound }) {
    Object.assign(this, { entries, onGo, onFound, hits: [], at: -1 });
    [this.input, this.found, this.list] = ["search", "found", "hits"].map((id) => document.getElementById(id));
    this.input.addEventListener("input", () => this.search(this.input.value));
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("focus", () => this.show(this.hits.length > 0));
    this.list.addEventListener("click", (event) => {
      const hit = event.target.closest("li[data-hit]");
      if (hit) this.go(+hit.dataset.hit);
    });
    document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".search")) this.show(false); });
  }

  search(text) {
    const wanted = text.trim();
    const fits = wanted && matcher(wanted);
    this.hits = wanted ? this.entries().filter((entry) => fits(entry)).sort((a, b) => rankOf(a, wanted) - rankOf(b, wanted)) : [];
    this.at = -1;
    this.found.textContent = wanted ? `${this.hits.length} found` : "";
    this.onFound(this.hits);
    this.list.innerHTML = this.hits.slice(0, SHOWN_HITS).map(({ title, about }, i) =>
      `<li role="option" id="hit-${i}" data-hit="${i}" aria-selected="false">`
      + `<b>${escaped(title)}</b><span>${escaped(about)}</span></li>`).join("");
    this.show(this.hits.length > 0);
  }

  show(isOpen) {
    this.list.hidden = !isOpen;
    this.input.setAttribute("aria-expanded", isOpen);
  }

  key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") this.choose(this.at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter") this.go(this.isChosen ? this.at : (this.at + 1) % (this.hits.length || 1), true);
    else if (event.key === "Escape") { this.show(false); this.input.blur(); }
    else return;
    event.preventDefault();
  }

  // Arrows choose in the list, and Enter goes there; Enter alone goes from one hit to the next.
  choose(at) {
    this.show(this.hits.length > 0);
    this.select(Math.max(0, Math.min(Math.min(this.hits.length, SHOWN_HITS) - 1, at)));
    this.isChosen = true;
  }

  select(at) {
    this.list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    this.at = at;
    const row = this.list.querySelector(`#hit-${at}`);
    row?.setAttribute("aria-selected", "true");
    row?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", row ? row.id : "");
  }

  go(at, staysOpen = false) {
    if (!this.hits[at]) return;
    this.isChosen = false;
    this.select(at);
    if (!staysOpen) this.show(false);
    this.onGo(this.hits[at]);
  }
}

// A shape is taken as it is written; a pattern also finds what is written just so; "relu conv" finds what has both words.
function matcher(wanted) {
  const words = wanted.toLowerCase().split(/\s+/), whole = wanted.toLowerCase();
  if (/^\[[\d, ]*\]?$/.test(wanted)) return (entry) => entry.lower.includes(whole);
  try {
    const pattern = new RegExp(wanted, "i");
    if (/[\\^$.*+?()[\]{}|]/.test(wanted)) return (entry) => pattern.test(entry.text) || entry.lower.includes(whole);
  } catch { /* no pattern: half a call, such as log( */ }
  return (entry) => words.every((word) => entry.lower.includes(word));
}

// What is called so comes first, then groups, then the rest in the order of the program.
function rankOf(entry, wanted) {
  const title = entry.title.toLowerCase();
  if (title === wanted.toLowerCase()) return 0;
  if (!title.includes(wanted.toLowerCase())) return 3;
  return entry.group ? 1 : 2;
}

function entry(title, about, words) {
  const text = words.flat().filter(Boolean).join("\n");
  return { title, about: about.flat().filter(Boolean).join(" · "), text, lower: text.toLowerCase() };
}

function entryOf(node) {
  const title = node.text === undefined ? nameOf(node) : equation(node);
  const place = Array.isArray(node.module) ? node.module.join(".") : node.module ?? "";
  const words = [title, node.op, node.label, node.function, node.type, shapeText(node.type), node.line, node.source, place];
  return { id: node.id, ...entry(title, [node.type, place, node.line], words) };
}

function entryOfGroup(group) {
  const { about, label } = group;
  const title = about.class && about.class !== label ? `${label} · ${about.class}` : label;
  const place = Array.isArray(about.module) ? about.module.join(".") : about.module ?? group.path.join(".");
  const words = [title, about.function, place, about.output, about.line, about.source];
  return { group: group.key, ...entry(title, [about.output, place, about.line], words) };
}
