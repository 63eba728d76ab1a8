// The URL encodes the state of the view, so that it can be linked to.

// v: view, s: measure to sort by, d: 1 if descending, q: search, f: system that the choice differs from,
// r: range of a measure, i: segment, p: sample to compare with, o: 'plain' or 'differences', if not the default
const DEFAULTS = {v: 'segments', s: 'order', d: '1', q: '', f: '', r: '', i: '', p: '', o: ''};
const state = {...DEFAULTS};
const listeners = [];

function readAddress() {
  let found = new URLSearchParams();
  try {
    found = new URLSearchParams(location.hash.slice(1));
  } catch { /* an address that cannot be read is ignored */ }
  for (const key of Object.keys(DEFAULTS)) state[key] = found.get(key) ?? DEFAULTS[key];
  if (!measure(state.s)) state.s = DEFAULTS.s;
  if (state.f && !others().includes(state.f)) state.f = '';
  if (!/^\d+$/.test(state.i) || Number(state.i) >= DATA.n) state.i = '';
}

// differences of wording are shown by default, unless samples are compared by their answers
const showsDifferences = () => state.o === '' ? !DATA.is_vote : state.o !== 'plain';
const withDifferencesShown = (shown) => ({o: shown === !DATA.is_vote ? '' : shown ? 'differences' : 'plain'});

function address() {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value !== DEFAULTS[key]) found.set(key, value);
  }
  return `#${found}`;
}

// change the state; with `step`, the browser's back button undoes the change
function go(changes, {step = false} = {}) {
  const before = {...state};
  Object.assign(state, changes);
  if (address() !== location.hash && !(address() === '#' && location.hash === '')) {
    try {
      history[step ? 'pushState' : 'replaceState'](null, '', address());
    } catch { /* frames without an address of their own */ }
  }
  notify(before);
}

function notify(before) {
  const changed = new Set(Object.keys(DEFAULTS).filter((key) => before[key] !== state[key]));
  listeners.forEach((listener) => listener(changed));
}

window.addEventListener('popstate', () => {
  const before = {...state};
  readAddress();
  notify(before);
});
