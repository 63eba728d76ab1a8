// The controls, the keyboard, and the start of the page.

function fillSelect(select, choices) {
  select.replaceChildren(...choices.map(([value, name]) => h('option', {value}, name)));
}

const CONFIDENCES = [['', 'any'], ['confidence::0.5', 'below 50%'], ['confidence::0.8', 'below 80%'],
  ['confidence::0.95', 'below 95%'], ['confidence:0.95:', '95% or more']];

function setUp() {
  fillSelect($('sort'), measures().map(([key, name]) => [key, name]));
  fillSelect($('differs'), [['', 'nothing'], ...others().map((name) => [name, name])]);
  fillSelect($('confidence'), CONFIDENCES);
  const failed = DATA.columns.error.filter(Boolean).length;
  $('facts').textContent = [count(DATA.n, DATA.words.unit), failed ? `${plain(failed)} failed` : null,
    `${DATA.metric}, ${DATA.strategy}`, DATA.note].filter(Boolean).join(' · ');
  $('sort').addEventListener('change', () => go({s: $('sort').value}));
  $('direction').addEventListener('click', () => go({d: state.d === '1' ? '0' : '1'}));
  $('differs').addEventListener('change', () => go({f: $('differs').value}));
  $('confidence').addEventListener('change', () => go({r: $('confidence').value}));
  $('search').addEventListener('input', () => go({q: $('search').value}));
  $('filters').addEventListener('submit', (event) => event.preventDefault());
  $('to-segments').addEventListener('click', () => go({v: 'segments'}, {step: true}));
  $('to-corpus').addEventListener('click', () => go({v: 'corpus'}, {step: true}));
  $('to-help').addEventListener('click', () => $('help').showModal());
  $('save-jsonl').addEventListener('click', saveJsonLines);
  $('save-tsv').addEventListener('click', saveTsv);
  $('list').addEventListener('scroll', () => requestAnimationFrame(() => render({keep: true})), {passive: true});
  new ResizeObserver(() => render({keep: true})).observe($('list'));
  document.addEventListener('keydown', press);
}

function apply(changed) {
  const isCorpus = state.v === 'corpus';
  $('segments').hidden = isCorpus;
  $('corpus').hidden = !isCorpus;
  $('to-segments').setAttribute('aria-pressed', `${!isCorpus}`);
  $('to-corpus').setAttribute('aria-pressed', `${isCorpus}`);
  $('sort').value = state.s;
  $('direction').textContent = state.d === '1' ? '↓' : '↑';
  $('differs').value = state.f;
  $('confidence').value = state.r.startsWith('confidence:') ? state.r : '';
  if ($('confidence').selectedIndex < 0) $('confidence').value = '';
  if ($('search').value !== state.q) $('search').value = state.q;
  if (isCorpus) showCorpus();
  if (['s', 'd', 'q', 'f', 'r'].some((key) => changed.has(key))) refresh();
  else if (!isCorpus) {
    render();
    showSegment();
  }
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  ArrowDown: (event) => event.target === $('list') && (move(1), true),
  ArrowUp: (event) => event.target === $('list') && (move(-1), true),
  Enter: (event) => event.target === $('list') && current() !== null
    && (openSegment(current(), true), $('segment').focus(), true),
  '/': () => (go({v: 'segments'}), $('search').focus(), true),
  '?': () => ($('help').showModal(), true),
  c: () => go({v: 'corpus'}, {step: true}),
  s: () => go({v: 'segments'}, {step: true}),
};

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $('help').open) return;
  const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox';
  if (event.key === 'Escape') return leave(isTyping);
  if (isTyping) {
    if (event.key === 'Enter' && event.target === $('search')) $('list').focus();
    return;
  }
  if (state.v === 'corpus' && 'jk'.includes(event.key)) return;
  if (KEYS[event.key] && KEYS[event.key](event) !== false) event.preventDefault();
}

function leave(isTyping) {
  if (isTyping && state.q) go({q: ''});
  else if (state.v === 'corpus') go({v: 'segments'}, {step: true});
  else if (state.i !== '' && isNarrow()) go({i: ''}, {step: true});
  if (state.v === 'segments') $('list').focus();
}

openData().then(() => {
  setUp();
  readAddress();
  listeners.push(apply);
  apply(new Set(['q']));
  document.documentElement.dataset.ready = 'yes';
  performance.mark('first-row');
  whenParsed.then(() => openAhead());
}).catch((error) => {
  $('empty').hidden = false;
  $('empty').textContent = `The data of this page cannot be opened: ${error.message}`;
});
