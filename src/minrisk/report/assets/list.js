// The list: filtering, sorting, and elements for visible rows only.

const ROW = 76;  // height in pixels, as in the style sheet
let rows = [];   // the numbers of the segments that are shown, in order
let rowElements = new Map();  // the elements in the document, by position in `rows`
let searchNumber = 0;  // the number of the last search; older ones stop

function matchesColumns(i) {
  if (state.f && DATA.systems.same[DATA.systems.names.indexOf(state.f)][i] !== 0) return false;
  if (!state.r) return true;
  const [key, low, high] = rangeOf(state.r);
  const value = measure(key)?.[2](i);
  return value !== null && value !== undefined && value >= low && value < high;
}

function rangeOf(text) {
  const [low, high] = text.split(':').slice(-2);
  const bound = (part, otherwise) => part === '' ? otherwise : Number(part);
  return [text.split(':').slice(0, -2).join(':'), bound(low, -Infinity), bound(high, Infinity)];
}

async function refresh() {
  const mine = ++searchNumber;
  const query = state.q.trim().toLowerCase();
  const found = [];
  let pause = performance.now() + 12;
  for (let i = 0, part = -1; i < DATA.n; i++) {
    if (query && partOf(i) !== part) {
      part = partOf(i);
      if (searchTexts[i] === undefined) await openPart(part);
      if (performance.now() > pause) {
        $('count').textContent = `searching: ${plain(i)} of ${plain(DATA.n)}`;
        await new Promise((resolve) => setTimeout(resolve));
        pause = performance.now() + 12;
      }
      if (mine !== searchNumber) return;
    }
    if (matchesColumns(i) && (!query || searchTexts[i].includes(query))) found.push(i);
  }
  rows = sortRows(found);
  showCount();
  $('list').scrollTop = 0;
  render();
  showSegment();
}

function sortRows(found) {
  const value = measure(state.s)[2];
  const keys = new Map(found.map((i) => [i, value(i)]));
  const direction = state.d === '1' ? -1 : 1;
  return found.sort((a, b) => {
    const [one, other] = [keys.get(a) ?? null, keys.get(b) ?? null];
    if (one === null || other === null) return (one === null) - (other === null) || a - b;
    return direction * (one - other) || a - b;
  });
}

function showCount() {
  $('count').textContent = rows.length === DATA.n ? count(DATA.n, DATA.words.unit)
    : `${plain(rows.length)} of ${count(DATA.n, DATA.words.unit)}`;
  $('empty').hidden = rows.length > 0;
  $('empty').textContent = DATA.n ? `No ${DATA.words.unit} matches. Clear the search or the filters.`
    : `There are no ${DATA.words.units}.`;
  $('chips').replaceChildren(...(state.r ? [rangeChip()] : []));
}

function rangeChip() {
  const [key, low, high] = rangeOf(state.r);
  const name = measure(key)?.[1] ?? key;
  const show = ['confidence', 'distinct'].includes(key) ? percent : (v) => number(v, DATA.digits);
  const text = high === Infinity ? `${name} from ${show(low)}` : low === -Infinity
    ? `${name} below ${show(high)}` : `${name} ${show(low)} to ${show(high)}`;
  return h('button', {type: 'button', class: 'chip', title: 'Remove this filter',
    onclick: () => go({r: ''})}, text, h('span', {'aria-hidden': 'true'}, ' ×'));
}

// with `keep`, elements of rows that stay visible are reused: only their position has changed
function render({keep = false} = {}) {
  const list = $('list'), canvas = $('canvas');
  canvas.style.height = `${rows.length * ROW}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
  const last = Math.min(rows.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
  const visible = new Map();
  for (let place = first; place < last; place++) {
    visible.set(place, (keep && rowElements.get(place)) || row(place));
  }
  for (const [place, element] of rowElements) if (visible.get(place) !== element) element.remove();
  for (const [place, element] of visible) if (rowElements.get(place) !== element) canvas.append(element);
  rowElements = visible;
  const open = $(`row-${current()}`);
  if (open) list.setAttribute('aria-activedescendant', open.id);
  else list.removeAttribute('aria-activedescendant');
}

function row(place) {
  const i = rows[place], c = DATA.columns;
  const element = h('div', {class: 'row', id: `row-${i}`, role: 'option', 'aria-selected': `${i === current()}`,
    'aria-posinset': place + 1, 'aria-setsize': rows.length, onclick: () => openSegment(i, true)},
  h('div', {class: 'meta'}, h('span', {class: 'id'}, c.request[i] ? h('time', {datetime: c.request[i].time}, `${clock(c.request[i].time)} `) : null, String(c.id[i])),
    c.error[i] ? h('span', {class: 'failed'}, 'failed') : badges(i)));
  if (c.error[i]) element.append(prose('div', c.error[i], {class: 'choice'}));
  else {
    element.append(prose('div', c.source[i] ?? '', {class: 'source'}),
      h('div', {class: 'choice'}, c.answer[i] === null ? null : [prose('bdi', c.answer[i], {class: 'answer'}), ' '],
        prose('span', c.text[i] || '(empty)')));
  }
  element.style.transform = `translateY(${place * ROW}px)`;
  return element;
}

function badges(i) {
  const c = DATA.columns;
  if (c.request[i]?.passed_through) return h('span', {class: 'tag'}, 'passed through');
  const sure = h('span', {class: 'meter', title: `Confidence ${percent(c.confidence[i])}`}, h('i', {}));
  sure.firstChild.style.width = percent(c.confidence[i] ?? 0);
  const key = state.s === 'order' ? 'utility' : state.s;
  return h('span', {class: 'badges'},
    state.f ? h('span', {class: 'differs', title: `Differs from ${state.f}`}, '≠') : null, sure,
    h('span', {class: 'value', title: measure(key)[1]}, formatMeasure(key, i)));
}

// the open segment: the one in the URL, or the first of the list
const current = () => state.i === '' ? (isNarrow() ? null : rows[0] ?? null) : Number(state.i);
const isNarrow = () => matchMedia('(max-width: 60rem)').matches;

function openSegment(i, step = false) {
  go({i: String(i), p: '', v: 'segments'}, {step});
}

function move(step) {
  if (!rows.length) return;
  const place = rows.indexOf(current());
  const next = Math.min(rows.length - 1, Math.max(0, place < 0 ? 0 : place + step));
  openSegment(rows[next]);
  reveal(next);
}

function reveal(place) {
  const list = $('list');
  const top = place * ROW;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + ROW > list.scrollTop + list.clientHeight) {
    list.scrollTop = top + ROW - list.clientHeight;
  }
}

function savedRows() {
  const c = DATA.columns;
  return rows.map((i) => {
    const found = {id: c.id[i], source: c.source[i], text: c.text[i]};
    if (c.error[i]) return {id: c.id[i], error: c.error[i]};
    for (const key of ['answer', 'utility', 'margin', 'confidence', 'entropy', 'distinct', 'samples']) {
      found[key] = key === 'utility' ? signed(c[key][i]) : c[key][i];
    }
    others().forEach((name) => { found[`ahead of ${name}`] = leadOver(name, i); });
    return found;
  });
}

function saveJsonLines() {
  download(`${DATA.words.units}.jsonl`, 'application/jsonl', savedRows().map((row) => `${JSON.stringify(row)}\n`).join(''));
}

function saveTsv() {
  const saved = savedRows();
  const names = [...new Set(saved.flatMap(Object.keys))];
  // a spreadsheet would take a text that begins with one of these for a formula
  const cell = (value) => typeof value !== 'string' ? value ?? ''
    : value.replace(/[\t\r\n]+/g, ' ').replace(/^(?=[=+@-])/, "'");
  const lines = [names, ...saved.map((row) => names.map((name) => cell(row[name])))];
  download(`${DATA.words.units}.tsv`, 'text/tab-separated-values', lines.map((line) => `${line.join('\t')}\n`).join(''));
}
