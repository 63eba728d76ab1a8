// The data of the page: rows of the list are loaded at once, details of segments in parts.

const DATA = {n: 0, columns: {}, systems: {}, parts: []};
const parts = [];   // promises of the details, by part
const searchTexts = [];  // lower-case texts of each segment whose part is loaded

const whenParsed = new Promise((resolve) => {
  if (document.readyState !== 'loading') resolve();
  else document.addEventListener('DOMContentLoaded', resolve, {once: true});
});

async function unpack(id) {
  if (!document.getElementById(id)) await whenParsed;
  const encoded = document.getElementById(id).textContent;
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(encoded)
    : Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).json();
}

async function openData() {
  Object.assign(DATA, await unpack('index'));
  DATA.n = DATA.columns.id.length;
  DATA.sign = DATA.is_error ? -1 : 1;
  DATA.digits = digitsFor(DATA.columns.utility);
}

function partOf(segment) {
  let low = 0, high = DATA.parts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (DATA.parts[middle] <= segment) low = middle; else high = middle - 1;
  }
  return low;
}

function openPart(number) {
  parts[number] ??= unpack(`part-${number}`).then((found) => {
    found.forEach((details, offset) => {
      const i = DATA.parts[number] + offset;
      const texts = [DATA.columns.id[i], DATA.columns.source[i], DATA.columns.text[i],
        ...(details.texts ?? []), ...(details.human ?? []),
        ...Object.values(details.outputs ?? {})];
      searchTexts[i] = texts.join('\n').toLowerCase();
    });
    return found;
  });
  return parts[number];
}

// load parts in idle time, so that the first search need not wait
const MOST_AHEAD = 200;  // parts, of a quarter of a megabyte each
const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));

function openAhead(number = 0) {
  if (number >= Math.min(DATA.parts.length, MOST_AHEAD)) return;
  idle(() => openPart(number).then(() => openAhead(number + 1)));
}

async function detailsOf(segment) {
  const number = partOf(segment);
  return (await openPart(number))[segment - DATA.parts[number]];
}

// measures to sort the list by: key, label, and value of a segment
let measureTable = null;
const measures = () => [...(measureTable ??= allMeasures()).values()];
const measure = (key) => (measureTable ??= allMeasures()).get(key);

function allMeasures() {
  const c = DATA.columns;
  const found = [
    ['order', 'Input order', (i) => -i],
    ['utility', 'Utility', (i) => signed(c.utility[i])],
    ['margin', 'Margin', (i) => c.margin[i]],
    ['confidence', 'Confidence', (i) => c.confidence[i]],
    ['entropy', 'Entropy', (i) => c.entropy[i]],
    ['distinct', 'Distinct share', (i) => c.samples[i] ? c.distinct[i] / c.samples[i] : null],
    ['length', 'Length', (i) => (c.source[i] ?? c.text[i] ?? '').length],
    ['gain', 'Lead over a sample', (i) => difference(c.utility[i], c.mean[i])],
  ];
  others().forEach((name) => found.push(
    [`ahead:${name}`, `Lead over ${name}`, (i) => leadOver(name, i)]));
  if (c.request.some(Boolean)) {
    found.push(['latency', 'Latency', (i) => c.request[i]?.seconds.request ?? null],
      ['tokens', 'Tokens', (i) => tokensOf(c.request[i])]);
  }
  return new Map(found.map((entry) => [entry[0], entry]));
}

const tokensOf = (request) => request?.completion_tokens === undefined ? null
  : (request.prompt_tokens ?? 0) + request.completion_tokens;
const others = () => DATA.systems.names.filter((name) => name !== 'choice');
// metrics that are errors are negated in the data, and shown with their original sign
const signed = (value) => value === null ? null : DATA.sign * value;
const difference = (one, other) => one === null || other === null ? null : one - other;

// the lead of the choice over a system, by human references if there are any, else by utility
function leadOver(name, i) {
  const {names, utilities, scores} = DATA.systems;
  const [own, other] = [names.indexOf('choice'), names.indexOf(name)];
  const table = scores[own] && scores[other] ? scores : utilities;
  return difference(table[own][i], table[other][i]);
}

function digitsFor(values) {
  const sizes = values.filter((v) => v !== null).map(Math.abs).sort((a, b) => a - b);
  const typical = sizes[sizes.length >> 1] ?? 1;
  return typical >= 10 ? 1 : typical >= 1 ? 2 : 3;
}
