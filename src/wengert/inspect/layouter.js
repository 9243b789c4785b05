// Layouts are computed in a worker, so that the page never freezes. The page is one file, so the worker's program is a
// Blob of scripts that stand in it. Where no worker may be started, such as in some notebooks, the page does it itself.
"use strict";

const layouter = (() => {
  const waiting = new Map(), caches = new Map();
  let number = 0, worker = start();

  function start() {
    try {
      const text = ["script-dagre", "script-columns", "script-layout"].map((id) => document.getElementById(id).textContent).join("\n");
      const made = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
      made.onmessage = ({ data }) => answer(data);
      made.onerror = (event) => { event.preventDefault(); giveUp(); };
      return made;
    } catch { return null; }
  }

  function giveUp() {
    worker = null;
    for (const [asked, { subject, request }] of waiting) answer(here(asked, subject, request));
  }

  function here(asked, subject, request) {
    if (!caches.has(subject)) caches.set(subject, new Map());
    return { number: asked, found: layOut(request, caches.get(subject)) };
  }

  function answer({ number: asked, found, error }) {
    const { resolve, reject } = waiting.get(asked);
    waiting.delete(asked);
    if (error) reject(new Error(error)); else resolve(found);
  }

  // The layout of a request, soon; `subject` says for what, since groups that have not changed are remembered by subject.
  function ask(subject, request) {
    const asked = ++number;
    const promise = new Promise((resolve, reject) => waiting.set(asked, { subject, request, resolve, reject }));
    if (worker) worker.postMessage({ number: asked, subject, request });
    else setTimeout(() => waiting.has(asked) && answer(here(asked, subject, request)));
    return promise;
  }

  return { ask, get pending() { return waiting.size; }, get threaded() { return worker !== null; } };
})();
