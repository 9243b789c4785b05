// What a box is: a product, an activation, ...; it gives the box its colour. The first word that fits decides.
"use strict";

const KINDS = [
  ["loss", /cross.?entropy|_loss\b|\bloss\b|\bmse\b|nll|kl.?div/],
  ["attention", /attention|\battn\b|multihead/],
  ["norm", /norm\b|norm\d|layer.?norm|batch.?norm|group.?norm/],
  ["activation", /relu|gelu|silu|swish|sigmoid|tanh|softmax|softplus|\belu\b|mish|dropout/],
  ["pool", /pool/],
  ["product", /matmul|linear|conv|dot\b|einsum|\bmm\b|bmm|embedding|lstm|gru|rnn|tensordot|take/],
  ["reduce", /^(sum|mean|max|min|prod|var|std|any|all|argmax|argmin|logsumexp|cumsum|norm|reduce)\b/],
  ["shape", /reshape|permute|transpose|broadcast|expand|squeeze|concat|stack|split|slice|getitem|flatten|pad\b|index|cast|alias|gather|scatter/],
  ["random", /random|uniform|normal\b|bernoulli|threefry/],
  ["collective", /all_reduce|all_gather|reduce_scatter|transfer|all_to_all/],
];

const KIND_NAMES = {
  given: "input, parameter", product: "product, convolution", activation: "activation", norm: "normalisation",
  attention: "attention", loss: "loss", pool: "pooling", reduce: "reduction", shape: "shape, indexing", random: "random numbers",
  element: "elementwise", container: "module",
};

const kindCache = new Map();

function kindOfWords(words) {
  const text = words.toLowerCase();
  if (!kindCache.has(text)) kindCache.set(text, KINDS.find(([, pattern]) => pattern.test(text))?.[0]);
  return kindCache.get(text);
}

const kindOfNode = (node) => (node.given ? "given" : kindOfWords(node.op.replaceAll(" ", "_")) ?? "element");

// A group by its function or class, by its name, and last by what most of its ops are.
function kindOfGroup(group) {
  const { about, label } = group;
  if (!group.isLeaf) return "container";
  const named = kindOfWords(`${about.function ?? about.class ?? ""}`) ?? kindOfWords(label);
  if (named) return named;
  const counts = d3.rollup(group.nodes.filter((node) => !node.given), (some) => some.length, kindOfNode);
  return d3.greatest(counts, ([kind, count]) => (kind === "shape" ? 0.1 : count))?.[0] ?? "container";
}
