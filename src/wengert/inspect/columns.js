// A chain of boxes that is taller than the view goes on in other columns, as text does. This runs in the worker too.
"use strict";

const GUTTER = 30, MOST_CROSSING = 4, MOST_COLUMNS = 12; // how many edges may go from one column to the next

const sidesOf = ([x, y], { width, height }) =>
  ({ left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 });

// A part of a layout, { boxes, edges, width, height }, in columns. `columns`, where given, are the boxes that begin one.
function folded(part, { tallest, view, columns: given }, sizes) {
  const columns = given ? cutAt(blocksOf(part, sizes), given) : chosen(part, tallest, view, sizes);
  if (columns.length < 2) return part;
  columns.forEach((column, i) => { column.end = columns[i + 1]?.start ?? Infinity; });
  const columnOf = (y) => columns.findIndex((column) => y < column.end);
  for (const [key, at] of part.boxes) widen(columns[columnOf(at[1])], sidesOf(at, sizes.get(key) ?? { width: 0, height: 0 }));
  for (const [x, y] of [...part.edges.values()].flat()) widen(columns[columnOf(y)], { left: x, right: x });
  let left = 0;
  for (const column of columns) {
    Object.assign(column, { dx: left - column.left, dy: -column.top });
    left += column.right - column.left + GUTTER;
  }
  const moved = ([x, y]) => { const column = columns[columnOf(y)]; return [x + column.dx, y + column.dy]; };
  return {
    boxes: new Map([...part.boxes].map(([key, point]) => [key, moved(point)])),
    edges: new Map([...part.edges].map(([name, points]) => [name, overColumns(points, columns, columnOf, moved)])),
    width: left - GUTTER, height: Math.max(...columns.map((column) => column.bottom - column.top)),
    columns: columns.slice(1).map((column) => column.first),
  };
}

function widen(column, sides) {
  for (const [side, most] of [["left", Math.min], ["top", Math.min], ["right", Math.max], ["bottom", Math.max]]) {
    if (sides[side] !== undefined) column[side] = most(column[side] ?? sides[side], sides[side]);
  }
}

// What lies between two heights at which the chain may be cut: between layers, where few edges cross.
function blocksOf(part, sizes) {
  const own = [...part.boxes].filter(([key]) => sizes.has(key)); // without ports
  const boxes = own.map(([key, at]) => ({ key, ...sidesOf(at, sizes.get(key)) })).sort((a, b) => a.top - b.top);
  const crossing = (y) => [...part.edges.values()].filter((points) => points[0][1] < y && points.at(-1)[1] > y).length;
  const blocks = [];
  for (const { key, ...sides } of boxes) {
    const last = blocks.at(-1), y = last && (last.bottom + sides.top) / 2;
    const isNext = !last || (sides.top > last.bottom + 4 && crossing(y) <= MOST_CROSSING);
    if (isNext) blocks.push({ first: key, keys: [key], start: last ? y : -Infinity, ...sides });
    else { last.keys.push(key); widen(last, sides); }
  }
  return blocks;
}

const column = ({ first, start, left, right, top, bottom }) => ({ first, start, left, right, top, bottom });

function cutAt(blocks, keys) {
  const begins = new Set(keys), columns = [];
  for (const block of blocks) {
    if (!columns.length || block.keys.some((key) => begins.has(key))) columns.push(column(block));
    else widen(columns.at(-1), block);
  }
  return columns;
}

// As many columns as show the whole largest; one, where it is not much too tall, or where one box makes it so.
function chosen(part, tallest, view, sizes) {
  const highest = Math.max(...[...part.boxes.keys()].map((key) => sizes.get(key)?.height ?? 0));
  if (part.height <= tallest * 1.3 || highest > 0.6 * part.height) return [];
  const blocks = blocksOf(part, sizes), choices = [];
  for (let count = 1; count <= Math.min(MOST_COLUMNS, blocks.length); count++) choices.push(inColumns(blocks, count));
  const scale = (columns) => {
    const width = columns.reduce((sum, { left, right }) => sum + right - left + GUTTER, 0);
    return Math.min(view.width / width, view.height / Math.max(...columns.map(({ top, bottom }) => bottom - top)));
  };
  return choices.reduce((a, b) => (scale(b) > scale(a) * 1.02 ? b : a));
}

// Blocks in at most so many columns, of which the tallest is as low as can be.
function inColumns(blocks, count) {
  const filled = (limit) => {
    const columns = [];
    for (const block of blocks) {
      const last = columns.at(-1);
      if (!last || block.bottom - last.top > limit) columns.push(column(block));
      else widen(last, block);
    }
    return columns;
  };
  let low = Math.max(...blocks.map((block) => block.bottom - block.top)), high = blocks.at(-1).bottom - blocks[0].top;
  for (let i = 0; i < 24; i++) {
    const middle = (low + high) / 2;
    if (filled(middle).length <= count) high = middle; else low = middle;
  }
  return filled(high);
}

// The points of an edge, with the way from the foot of a column through the gutter to the head of the next one.
function overColumns(points, columns, columnOf, moved) {
  const found = [];
  points.forEach((point, i) => {
    if (i) for (let k = columnOf(points[i - 1][1]); k < columnOf(point[1]); k++) {
      const [from, to] = [columns[k], columns[k + 1]], x = points[i - 1][0] + from.dx;
      const gutter = from.right + from.dx + GUTTER / 2, foot = from.bottom + from.dy + 8;
      const head = Math.min(Math.max(point[0], to.left), to.right) + to.dx;
      const corners = [[x, foot], [gutter, foot], [gutter, -10], [head, -10]];
      for (const corner of corners) found.push(corner, corner); // twice: a curve comes close
    }
    found.push(moved(point));
  });
  return found;
}
