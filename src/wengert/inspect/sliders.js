// Sliders for the inputs of a function of a few numbers: every value, adjoint and derivative is computed anew, here.
"use strict";

const shortNumber = (value) => {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const text = String(+value.toPrecision(6));
  return text.replace(/e([+-])(\d)$/, "e$10$2");
};

class Sliders {
  // `steps` are [id, JavaScript] over `v`, the values by node, and `f`, the functions; `derivatives` [id, position, JavaScript].
  constructor({ inputs, given, functions, steps, derivatives }, onChange) {
    this.inputs = inputs.map(([id, value]) => ({ id, value, first: value }));
    this.onChange = onChange;
    const made = (text, ...names) => new Function(...names, `"use strict"; return (${text});`);
    const f = Object.fromEntries(Object.entries(functions).map(([name, text]) => [name, made(text)()]));
    const compiled = (text) => { const of = made(text, "v", "f"); return (v) => Number(of(v, f)); };
    this.steps = steps.map(([id, text]) => [id, compiled(text)]);
    this.derivatives = derivatives.map(([id, position, text]) => [id, position, compiled(text)]);
    this.values = { ...given };
  }

  // The sliders in the panel: a row an input, with its number and from where to where it goes.
  show(holder) {
    if (!holder) return;
    holder.innerHTML = `<h3>move the inputs</h3>${this.inputs.map(({ id, value, first }, i) => {
      const reach = Math.max(1, 2 * Math.abs(first)), low = first > 0 ? 0.01 * reach : -reach;
      return `<label class="slider"><span>${escaped(nodes.get(id).label ?? nodes.get(id).name)}</span>
        <input type="range" data-input="${i}" min="${low}" max="${reach}" step="${reach / 400}" value="${value}">
        <output>${shortNumber(value)}</output></label>`;
    }).join("")}<p><button data-reset>reset</button></p>`;
    holder.oninput = (event) => {
      const i = event.target.dataset.input;
      if (i === undefined) return;
      this.inputs[i].value = +event.target.value;
      event.target.nextElementSibling.textContent = shortNumber(this.inputs[i].value);
      this.compute();
    };
    holder.querySelector("[data-reset]").onclick = () => {
      this.inputs.forEach((input) => { input.value = input.first; });
      this.compute();
      this.show(holder);
    };
  }

  set(id, value) {
    this.inputs.find((input) => input.id === id).value = value;
    this.compute();
  }

  compute() {
    const v = this.values;
    for (const { id, value } of this.inputs) this.put(id, value);
    for (const [id, step] of this.steps) this.put(id, step(v));
    for (const [id, position, step] of this.derivatives) {
      const derivative = nodes.get(id).derivatives[position];
      derivative.number = step(v);
      setNumber(derivative, derivative.number);
    }
    for (const node of model.forward) this.adjoint(node);
    this.onChange();
  }

  put(id, value) {
    this.values[id] = value;
    setNumber(nodes.get(id), value);
  }

  // The adjoint of a node and the terms of its sum: the reader's adjoint times the reader's derivative with respect to it.
  adjoint(node) {
    const { adjoint } = node;
    if (!adjoint) return;
    const of = (each) => this.values[each.adjoint?.node ?? each.cotangents[0]];
    if (of(node) !== undefined) adjoint.scalar = shortNumber(of(node));
    for (const term of adjoint.terms ?? []) {
      const reader = nodes.get(term.reader), derivative = reader.derivatives?.find((d) => d.of === node.id);
      if (derivative?.number === undefined || of(reader) === undefined) continue;
      const value = term.node === undefined ? of(reader) * derivative.number : this.values[term.node];
      Object.assign(term, { numbers: `${shortNumber(of(reader))} * ${shortNumber(derivative.number)}`, scalar: shortNumber(value) });
    }
    if (adjoint.sum) adjoint.sum = `${adjoint.terms.map((term) => term.scalar).join(" + ")} = ${adjoint.scalar}`;
  }
}

function setNumber(thing, value) {
  const text = shortNumber(value);
  thing.scalar = text;
  thing.value = { ...thing.value, shown: [text], min: text, max: text, mean: text };
  Object.assign(thing.value, { nan: Number.isNaN(value) ? 1 : 0, inf: Math.abs(value) === Infinity ? 1 : 0 });
}

const sliders = model.formulas ? new Sliders(model.formulas, () => {
  panes.forEach((pane) => { if (pane.tree) pane.painter.rewrite(); });
  if (state.picked !== null) point(null);
}) : null;
