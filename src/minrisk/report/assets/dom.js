// Elements. Samples may contain anything, so texts only ever become text nodes.

const SVG = 'http://www.w3.org/2000/svg';
const $ = (id) => document.getElementById(id);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== false));
  return element;
}

// h makes HTML elements, s makes SVG elements
const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
const s = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

// text of unknown writing direction
const prose = (tag, text, properties) => h(tag, {dir: 'auto', ...properties}, text ?? '');

// a column header; numbers are aligned at their end
const TEXT_COLUMNS = new Set(['Sample', 'Cluster', 'System', 'Output', 'Best of it', 'Reference', 'Strategy',
  'Budget', 'Characters', 'Answer', 'Reason']);
const column = (name) => h('th', {scope: 'col', class: TEXT_COLUMNS.has(name) ? null : 'num'}, name);

function number(value, digits = DATA.digits) {
  if (value === null || value === undefined) return '–';
  const shown = value.toFixed(digits);
  return (Number(shown) === 0 ? shown.replace('-', '') : shown).replace('-', '−');
}

const plain = (value) => value === null || value === undefined ? '–' : value.toLocaleString('en');
const percent = (value, digits = 0) =>
  value === null || value === undefined ? '–' : `${(100 * value).toFixed(digits)}%`;
const withSign = (value, digits = DATA.digits + 1) =>
  value === null ? '–' : `${value > 0 ? '+' : ''}${number(value, digits)}`;
// the lead of the choice as text: higher is better in the data, even for errors
const lead = (value, other = null) => value === null || value === undefined ? '–'
  : Math.abs(value) < 1e-9 ? `equal${other ? ` to ${other}` : ''}`
    : `${number(Math.abs(value), DATA.digits + 1)} ${value > 0 ? 'better' : 'worse'}${other ? ` than ${other}` : ''}`;
const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);
const seconds = (value) => value === undefined ? '–' : value < 1 ? `${(1000 * value).toFixed(0)} ms` : `${value.toFixed(1)} s`;
const clock = (time) => time === undefined ? '' : new Date(time).toLocaleTimeString('en-GB');
const count = (n, noun) => `${plain(n)} ${noun}${n === 1 ? '' : 's'}`;

function formatMeasure(key, i) {
  const [, , value] = measure(key);
  const found = value(i);
  if (key === 'order') return number(signed(DATA.columns.utility[i]));
  if (key === 'confidence' || key === 'distinct') return percent(found);
  if (key === 'length' || key === 'tokens') return plain(found);
  if (key === 'entropy') return number(found, 2);
  if (key === 'latency') return seconds(found ?? undefined);
  return key === 'gain' || key.startsWith('ahead:') ? lead(found) : number(found);
}

// clusters have letters, because not all readers can tell colours apart; a dash means no cluster
const letter = (label) => label < 0 ? '–' : label < 26 ? String.fromCharCode(65 + label)
  : letter(Math.floor(label / 26) - 1) + letter(label % 26);
const cluster = (label) => label < 0 ? h('span', {title: 'No answer, and no cluster'}, '–')
  : h('span', {class: `cluster c${label % 8}`, title: `Cluster ${letter(label)}`}, letter(label));

function download(name, type, text) {
  const link = h('a', {href: URL.createObjectURL(new Blob([text], {type})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
