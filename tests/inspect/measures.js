// What the tests measure on a page: sizes of text, boxes in view, contrasts, places.
"use strict";

var measures = {
  // The size on the screen of every text that can be seen.
  sizes() {
    const sizes = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement, box = element.getBoundingClientRect();
      const isSeen = box.width > 0 && box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
      const isText = walker.currentNode.textContent.trim() && !/script|style|title/i.test(element.tagName);
      if (!isText || !isSeen || element.closest(".unseen")) continue;
      const scale = element instanceof SVGElement ? element.getScreenCTM().a : 1;
      sizes.push(parseFloat(getComputedStyle(element).fontSize) * scale);
    }
    return sizes;
  },

  // How many boxes of each pane that is shown are wholly in view.
  inView() {
    return [...document.querySelectorAll(".pane:not([hidden]) > svg")].map((svg) => {
      const pane = svg.getBoundingClientRect(), slack = 2;
      return [...svg.querySelectorAll(".box")].map((box) => box.getBoundingClientRect()).filter((at) =>
        at.left >= pane.left - slack && at.right <= pane.right + slack
        && at.top >= pane.top - slack && at.bottom <= pane.bottom + slack).length;
    });
  },

  // Texts that are wider than their boxes.
  tooWide() {
    return [...document.querySelectorAll(".pane:not([hidden]) .box")].flatMap((box) => {
      const room = box.querySelector("rect").getBoundingClientRect().width + 1;
      const texts = [...box.querySelectorAll("text")];
      return texts.filter((text) => text.getBoundingClientRect().width > room).map((text) => text.textContent);
    });
  },

  // The contrast of each text to its box, as WCAG defines it.
  contrasts() {
    const linear = (c) => (c <= 0.04 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = (element) => {
      const [r, g, b] = getComputedStyle(element).fill.match(/[\d.]+/g).map((c) => linear(c / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...document.querySelectorAll("#forward .box")].flatMap((box) => [...box.querySelectorAll("text")].map((text) => {
      const [lighter, darker] = [light(text), light(box.querySelector("rect"))].sort((a, b) => b - a);
      return (lighter + 0.05) / (darker + 0.05);
    }));
  },

  // Boxes that overlap, and boxes that stand out of the group they are in.
  misplaced(pane) {
    const found = [], slack = 0.5;
    const boxes = pane.items.map(({ key, parent, x, y, width, height }) =>
      ({ key, parent, left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 }));
    boxes.sort((a, b) => a.left - b.left);
    boxes.forEach((a, i) => {
      for (const b of boxes.slice(i + 1)) {
        if (b.left >= a.right - slack) break;
        if (b.top < a.bottom - slack && a.top < b.bottom - slack) found.push(["overlap", a.key, b.key]);
      }
      const around = pane.framed.get(a.parent);
      const isOut = around && (a.left < around.x - slack || a.right > around.x + around.width + slack
        || a.top < around.y - slack || a.bottom > around.y + around.height + slack);
      if (isOut) found.push(["outside", a.key, a.parent]);
    });
    return found;
  },

  // The milliseconds that something takes, until it is drawn.
  async timed(act) {
    const start = performance.now();
    await act();
    return performance.now() - start;
  },

  // Where a box is on the screen: the middle of it.
  place(key) {
    const box = document.querySelector(`.pane:not([hidden]) [data-key="${key}"]`).getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  },
};
